//! Discarding changes, so that the session shows the host's files again.

use super::error::ReviewError;
use super::open::Review;
use super::select::Selected;

impl Review {
    /// Discards what is selected.
    pub fn discard(&mut self, selected: &Selected) -> Result<(), ReviewError> {
        self.check_stopped()?;
        let Some(lock) = &self.lock else { return Ok(()) };
        if selected.is_all() {
            return Ok(self.session.clear(lock)?);
        }
        for (root, path) in selected.tops(&self.roots()?) {
            self.session.discard(lock, root, &path)?;
        }
        Ok(())
    }
}
