//! `image build`: builds a container image for agents from the installed binaries.

use sandbox_policy::Host;
use sandbox_sessions::image;

use crate::args::Flags;
use crate::args::image::Build;
use crate::failed::Outcome;
use crate::ui::{Stdio, Tone};

/// Builds an image.
pub(crate) fn build(flags: &Flags, build: Build, host: &Host, io: &mut Stdio<'_>) -> Outcome {
    let build = image::Build::from(build);
    if flags.dry_run {
        let dockerfile = build.dockerfile();
        if flags.json {
            super::json(&serde_json::json!({ "dockerfile": dockerfile }), io);
        } else {
            io.data(&dockerfile);
        }
        return Ok(0);
    }
    let id = build.run(host, &mut |line| io.say(line))?;
    let image::Build { base, tag, target, .. } = build;
    if flags.json {
        let target = target.name();
        let report = serde_json::json!({ "image": tag, "id": id, "target": target, "base": base });
        super::json(&report, io);
    } else {
        io.labelled(Tone::Good, "built", &format!("`{tag}` on `{base}`"));
        io.data(&format!("{tag}\n"));
    }
    Ok(0)
}
