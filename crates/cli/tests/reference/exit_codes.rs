//! `exit-codes.md`: each code, with a command that is run and must exit with it.

use sandbox_protocol::exit::{self, Row};

use testkit::World;

use super::{code, table};

const INTRO: &str = "\
# Exit codes

The exit code of the command passes through. The other codes are those of agent-sandbox.
";

#[test]
fn exit_codes_are_what_the_page_says() {
    let world = World::new();
    for Row { code, meaning, example } in exit::rows() {
        world.run(example).code(code.into());
        assert!(!meaning.is_empty());
    }
    let page = world.run(["man"]).succeeds().output();
    for Row { code: number, meaning, .. } in exit::rows() {
        let meaning = meaning.replace('-', "\\-");
        assert!(
            page.contains(&format!("\\fB{number}\\fR\n{meaning}")),
            "{number}: {meaning}\n{page}"
        );
    }
    let rows = exit::rows().into_iter().map(|Row { code: number, meaning, example }| {
        let words = example.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        [number.to_string(), meaning.to_owned(), code(&format!("agent-sandbox {words}"))]
    });
    let text = format!("{INTRO}\n{}", table(["code", "meaning", "for example"], rows));
    super::page("exit-codes.md", &text);
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("'{word}'") } else { word.to_owned() }
}
