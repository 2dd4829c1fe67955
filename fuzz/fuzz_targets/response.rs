#![no_main]
#[path = "../src/response.rs"]
mod response;
libfuzzer_sys::fuzz_target!(|data: &[u8]| response::response(data));
