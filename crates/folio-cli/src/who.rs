//! Who drives runs: this process, or workers that Restate assigns them to.

use std::str::FromStr;
use std::sync::Arc;

use folio::runner::Dispatch;
#[cfg(feature = "restate")]
use folio_restate::{Ingress, Place};

use crate::error::Failure;

/// Who drives runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// This process.
    Process,
    /// Workers that Restate assigns runs to; its ingress is at this address.
    #[cfg(feature = "restate")]
    Restate(Place),
}

impl FromStr for Who {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "process" => Ok(Self::Process),
            #[cfg(feature = "restate")]
            Some(("restate", place)) => place
                .parse()
                .map(Self::Restate)
                .map_err(|error: folio_restate::PlaceError| error.to_string()),
            #[cfg(not(feature = "restate"))]
            Some(("restate", _)) => Err("this program was built without Restate".to_owned()),
            _ => Err("neither process nor restate=URL".to_owned()),
        }
    }
}

impl Who {
    /// The dispatcher that hands runs over to others, if others drive them.
    pub(crate) fn dispatch(&self) -> Result<Option<Arc<dyn Dispatch>>, Failure> {
        match self {
            Self::Process => Ok(None),
            #[cfg(feature = "restate")]
            Self::Restate(place) => Ok(Some(Arc::new(Ingress::at(place.clone())?))),
        }
    }
}
