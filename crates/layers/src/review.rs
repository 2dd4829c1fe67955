//! Review of a session's changes: show, apply, revert or discard them.
//!
//! ```text
//! open         session → a `Review` with its lock, and one `OpenRoot` for each directory
//! select       paths given by the caller → paths below the roots
//! later        path → the program that would run it later; such changes are held back
//! repository   the commits of changed git repositories, and files in them that run code later
//! line         the selected changes, with line counts
//! total        their number
//! report       all of it as data for programs
//! patch        the changes that `git apply` can apply
//! plan         selection → what an apply does, and what it leaves out
//! perform      free space, journal, apply; completion of an interrupted one
//! undo         revert of the last apply
//! discard      paths, or everything
//! summary      the size of a session's changes
//! work         changes that removing a session would lose
//! history      runs, snapshots, applies and undos of a session
//! shown        paths and repositories as text for a terminal
//! hunks        selection of hunks in one file
//! ```
//! Nothing here prints, asks or exits. The command line and the HTTP API do that with the returned data.

mod error;
mod open;
mod select;
mod later;
mod repository;
mod line;
mod total;
mod report;
mod patch;
mod plan;
mod perform;
mod undo;
mod discard;
mod summary;
mod work;
mod history;
mod shown;
mod hunks;

pub use error::{ResumeError, ReviewError};
pub use history::{Event, history};
pub use hunks::{Bit, HunkChoice, Taken, comes_along};
pub use line::{Counted, Line, Status, lines};
pub use open::{OpenRoot, Review};
pub use patch::{LeftOut, Patch};
pub use perform::Resumed;
pub use plan::{deletions_to_confirm, plan, steps};
pub use report::{
    ChangeReport, CheckoutReport, CommitReport, DiffReport, HeadReport, HeldReport, LeftReport,
    PathText, PlanReport, RefReport, RepositoryReport, SideReport, StepReport,
};
pub use repository::{Effect, inspect};
pub use select::Selected;
pub use shown::{Shown, shown};
pub use summary::Summary;
pub use total::Total;
pub use work::unapplied;
