//! Errors as text.

use std::error::Error;

/// Returns an error and its sources on one line. A source is left out if the text already ends with it.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn chain_names_every_source_once() {
        for (message, expected) in
            [("cannot read", "cannot read: gone"), ("cannot read: gone", "cannot read: gone")]
        {
            assert_eq!(chain(&Outer(message, io::Error::other("gone"))), expected);
        }
    }
}
