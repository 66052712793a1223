//! The program folio.
fn main() {}
