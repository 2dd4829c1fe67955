//! Transcripts of the pages about containers, typed as they are printed: see [`testkit::Page`].
