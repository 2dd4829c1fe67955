//! tmp
use crate::args::Flags;
use crate::run::Outcome;
use crate::ui::Stdio;
use sandbox_core::Host;
pub(crate) fn show(_f: &Flags, _h: &Host, _i: &mut Stdio<'_>) -> Outcome {
    Ok(0)
}
pub(crate) fn path(_f: &Flags, _h: &Host, _i: &mut Stdio<'_>) -> Outcome {
    Ok(0)
}
pub(crate) fn schema(_i: &mut Stdio<'_>) -> u8 {
    0
}
