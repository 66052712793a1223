//! JSON schemas of types that are serialized as a single string, for interfaces that return them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::entry::{Confidence, Owner, Status, Tag};
use crate::id::{EntryHandle, EntryId, PageHandle, PageId, RunHandle, RunId, TurnHandle, TurnId};
use crate::time::Timestamp;

macro_rules! written_as {
    ($($name:ident => $schema:tt;)*) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

written_as! {
    EntryId => {"type": "string", "pattern": "^obs_[0-9A-Z]{26}$"};
    PageId => {"type": "string", "pattern": "^page_[0-9A-Z]{26}$"};
    RunId => {"type": "string", "pattern": "^run_[0-9A-Z]{26}$"};
    TurnId => {"type": "string", "pattern": "^turn_[0-9A-Z]{26}$"};
    EntryHandle => {"type": "string", "pattern": "^e[0-9]+$"};
    PageHandle => {"type": "string", "pattern": "^p[0-9]+$"};
    RunHandle => {"type": "string", "pattern": "^r[0-9]+$"};
    TurnHandle => {"type": "string", "pattern": "^t[0-9]+$"};
    Timestamp => {"type": "string", "format": "date-time"};
    Tag => {"type": "string"};
    Owner => {"type": "string"};
    Status => {"type": "string"};
    Confidence => {"type": "number", "minimum": 0, "maximum": 1};
}
