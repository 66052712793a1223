//! Personal data in texts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of personal data that was found in an entry (M7.6.48).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pii {
    /// An e-mail address.
    Email,
    /// A telephone number.
    Phone,
    /// The number of a payment card, with its check digit.
    CreditCard,
    /// The number of a bank account, with its check digits.
    Iban,
    /// An identification number that a state issues to a person.
    NationalId,
    /// The network address of a machine that may be a person's: not a loopback, private or documentation address.
    IpAddress,
    /// The hardware address of a network card.
    MacAddress,
}

impl Pii {
    /// The name in its written form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Phone => "phone",
            Self::CreditCard => "credit_card",
            Self::Iban => "iban",
            Self::NationalId => "national_id",
            Self::IpAddress => "ip_address",
            Self::MacAddress => "mac_address",
        }
    }
}

impl fmt::Display for Pii {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
