#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| folio_testkit::any_text::markdown(text));
