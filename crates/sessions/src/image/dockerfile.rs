//! Dockerfile of a target: the stages that it uses, without the one that compiles. Docker's legacy builder would run
//! every stage before the target's.

/// The repository's Dockerfile.
const DOCKERFILE: &str = include_str!("../../../../image/Dockerfile");

/// Replacement for the stage that compiles: the files of the build context.
const BUILD: &str = "FROM scratch AS build\nCOPY . /out/\n";

/// Returns the Dockerfile of a target.
pub(super) fn of(target: &str) -> String {
    let (head, stages) = stages(DOCKERFILE);
    let mut wanted = vec![target];
    let mut kept: Vec<&str> = Vec::new();
    // A stage only uses earlier ones, so one pass from the end finds them all.
    for (name, text) in stages.iter().rev().filter(|(name, _)| *name != "build") {
        if wanted.contains(name) {
            wanted.extend(uses(text));
            kept.push(text);
        }
    }
    kept.push(BUILD);
    kept.reverse();
    format!("{head}\n{}", kept.concat())
}

/// Splits a Dockerfile into the arguments above the first stage, and the stages by name.
fn stages(text: &str) -> (String, Vec<(&str, String)>) {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (mut head, mut stages) = (String::new(), Vec::<(&str, String)>::new());
    for line in lines {
        if line.starts_with("FROM ") {
            let name = line.rsplit(' ').next().unwrap_or_default();
            stages.push((name, String::new()));
        }
        let text = stages.last_mut().map_or(&mut head, |(_, text)| text);
        text.push_str(line);
        text.push('\n');
    }
    (head, stages)
}

/// Returns the stages that a stage copies from.
fn uses(stage: &str) -> Vec<&str> {
    let from = stage.split("--from=").skip(1);
    from.filter_map(|rest| rest.split_whitespace().next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_keeps_the_used_stages_and_compiles_nothing() {
        for (target, stages) in [
            ("sandbox", vec!["build", "sandbox"]),
            ("init", vec!["build", "init"]),
            ("minimal", vec!["build", "parts", "minimal"]),
        ] {
            let text = of(target);
            let (head, found) = self::stages(&text);
            assert!(head.contains("ARG BASE="), "{head}");
            assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), stages);
            assert!(!text.contains("cargo") && !text.contains("--platform"), "{text}");
        }
    }

    #[test]
    fn the_last_stage_is_the_default() {
        let (_, stages) = stages(DOCKERFILE);
        assert_eq!(stages.last().unwrap().0, "sandbox");
    }
}
