//! Tests with valid and malformed frames and requests.

use proptest::prelude::*;

use super::*;

#[test]
fn malformed_frames_are_refused() {
    for (bytes, expected) in [
        (*b"Z\0\0\0\0", Err(FrameError::Kind)),
        (*b"S\x02\0\0\0", Err(FrameError::Length)),
        (*b"I\x01\0\x01\0", Err(FrameError::Length)),
        (*b"R\xff\xff\xff\xff", Err(FrameError::Length)),
        (*b"x\x01\0\0\0", Ok((Kind::Exit, 1))),
    ] {
        assert_eq!(head(bytes), expected);
    }
    for bytes in [&b""[..], b"/w", b"/w\0", b"w\0a\0", b"/w\0\0"] {
        assert_eq!(Request::decode(bytes), Err(FrameError::Request), "{bytes:?}");
    }
    let mut bytes = Vec::new();
    write(&mut bytes, Kind::Output, b"text").unwrap();
    let frame = Frame { kind: Kind::Output, body: b"text".to_vec() };
    assert_eq!(read(bytes.as_slice()).unwrap(), Some(frame));
    assert!(read(&bytes[..7]).is_err());
    assert_eq!(read(&b""[..]).unwrap(), None);
}

proptest! {
    #[test]
    fn requests_round_trip(words in prop::collection::vec("[^\0]{0,8}", 1..6)) {
        prop_assume!(!words[0].is_empty());
        let argv = words.into_iter().map(OsString::from).collect();
        let request = Request { cwd: "/work space".into(), argv };
        prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
}
