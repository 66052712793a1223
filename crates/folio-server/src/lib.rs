//! Folio over HTTP.
