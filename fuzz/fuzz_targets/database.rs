#![no_main]
#[path = "../src/database.rs"]
mod database;
libfuzzer_sys::fuzz_target!(|data: &[u8]| database::database(data));
