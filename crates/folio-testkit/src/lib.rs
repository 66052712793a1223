//! Stand-ins and contract suites for the tests of Folio. Never shipped.
