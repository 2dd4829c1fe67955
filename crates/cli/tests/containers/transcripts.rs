//! Transcripts of the pages about containers, run as printed: see [`testkit::Page`].
