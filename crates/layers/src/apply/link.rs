//! Symlinks that lead outside a tree.

use std::path::{Component, Path};

use crate::RelPath;

/// Returns true if the target of a link, taken literally, is outside the tree.
pub(crate) fn leads_out(link: &RelPath, target: &Path, root: &Path) -> bool {
    if target.is_absolute() {
        return !target.starts_with(root)
            || target.components().any(|part| part == Component::ParentDir);
    }
    let mut depth = link.as_path().components().count() - 1;
    for part in target.components() {
        match part {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_out_when_its_text_does() {
        for (link, target, out) in [
            ("a", "b", false),
            ("a", "../b", true),
            ("d/a", "../b", false),
            ("d/a", "../../b", true),
            ("a", "/etc/passwd", true),
            ("a", "/root/tree/x", false),
            ("a", "/root/tree/../x", true),
            ("a", "b/../../c", true),
            ("a", "", false),
        ] {
            let path = RelPath::new(link).unwrap();
            let root = Path::new("/root/tree");
            assert_eq!(leads_out(&path, Path::new(target), root), out, "{link} -> {target}");
        }
    }
}
