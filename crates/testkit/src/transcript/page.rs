//! Parser of pages into blocks and commands.

/// A Markdown page with transcripts.
#[derive(Debug, Clone)]
pub struct Page {
    /// Path in the repository.
    pub name: String,
    /// Suite that runs it, if not the usual one.
    pub suite: Option<String>,
    /// Blocks and set-up, in order.
    pub parts: Vec<Part>,
}

/// Part of a page that its shell runs or uses.
#[derive(Debug, Clone)]
pub enum Part {
    /// Commands that are not shown to readers.
    Setup(String),
    /// A block of the page that is the content of a file.
    File {
        /// Path, as a word for the shell.
        path: String,
        /// Content.
        text: String,
    },
    /// A transcript.
    Block(Block),
}

/// A ```` ```console ```` block.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Line of the page on which it begins.
    pub line: usize,
    /// Reason why it is only shown.
    pub not_run: Option<String>,
    /// True when its commands run until the page ends.
    pub background: bool,
    /// Commands with their output.
    pub steps: Vec<Step>,
}

/// A command and the output that the page shows.
#[derive(Debug, Clone)]
pub struct Step {
    /// Line of the page.
    pub line: usize,
    /// Command without the prompt.
    pub command: String,
    /// Output, with placeholders.
    pub expected: String,
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// When a comment or a block is malformed.
    #[track_caller]
    pub fn parse(name: &str, text: &str) -> Self {
        let mut page = Self { name: name.into(), suite: None, parts: Vec::new() };
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        // Properties of the next block, from a comment.
        let mut next = Block::default();
        let mut file: Option<String> = None;
        while let Some((number, line)) = lines.next() {
            if let Some(comment) = line.strip_prefix("<!-- ") {
                let mut comment = comment.to_owned();
                while !comment.contains("-->") {
                    let Some((_, line)) = lines.next() else {
                        panic!("{name}:{number}: the comment does not end")
                    };
                    comment = format!("{comment}\n{line}");
                }
                let comment = comment.split("-->").next().unwrap_or_default().trim();
                if let Some(reason) = comment.strip_prefix("not run:") {
                    next.not_run = Some(reason.trim().to_owned());
                } else if let Some(directive) = comment.strip_prefix("test:") {
                    let directive = directive.trim();
                    let (word, rest) = directive.split_once([' ', '\n']).unwrap_or((directive, ""));
                    match word {
                        "setup" => page.parts.push(Part::Setup(rest.trim().to_owned())),
                        "file" => file = Some(rest.trim().to_owned()),
                        "background" => next.background = true,
                        "suite" => page.suite = Some(rest.trim().to_owned()),
                        _ => panic!("{name}:{number}: unknown directive"),
                    }
                }
            } else if let Some(language) = line.strip_prefix("```") {
                let mut content = Vec::new();
                loop {
                    match lines.next() {
                        Some((_, "```")) => break,
                        Some(line) => content.push(line),
                        None => panic!("{name}:{number}: the block does not end"),
                    }
                }
                if let Some(path) = file.take() {
                    let text = content.iter().flat_map(|(_, line)| [*line, "\n"]).collect();
                    page.parts.push(Part::File { path, text });
                } else if language == "console" {
                    let mut block = std::mem::take(&mut next);
                    block.line = number;
                    block.steps = steps(name, &content);
                    page.parts.push(Part::Block(block));
                }
            } else if line.trim_start().starts_with("```console") {
                panic!("{name}:{number}: a transcript must not be indented");
            }
        }
        page
    }

    /// Returns the transcripts.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.parts.iter().filter_map(|part| match part {
            Part::Block(block) => Some(block),
            _ => None,
        })
    }
}

/// Splits a block at its prompts. A command continues after a backslash, and to the end of a here-document.
fn steps(page: &str, content: &[(usize, &str)]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = content.iter();
    while let Some((number, line)) = lines.next() {
        if let Some(command) = line.strip_prefix("$ ") {
            let mut command = command.to_owned();
            let end =
                command.split_once("<<").map(|(_, word)| word.trim_matches(['\'', '"']).to_owned());
            let mut last = command.clone();
            while end.as_ref().is_some_and(|end| last != *end)
                || (end.is_none() && last.ends_with('\\'))
            {
                let Some((_, line)) = lines.next() else {
                    panic!("{page}:{number}: the command does not end")
                };
                command = format!("{command}\n{line}");
                (*line).clone_into(&mut last);
            }
            steps.push(Step { line: *number, command, expected: String::new() });
        } else {
            let Some(step) = steps.last_mut() else {
                panic!("{page}:{number}: the block does not start with `$ `")
            };
            step.expected += line;
            step.expected.push('\n');
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_cuts_a_page_into_set_up_files_and_steps() {
        let page = Page::parse(
            "p.md",
            "# P\n<!-- test: setup\nA=1\n-->\n<!-- test: file ~/x -->\n\n```toml\na = 1\n```\n\n\
             ```console\n$ cat <<END\nb\nEND\nb\n$ echo a \\\n  b\na b\n```\n\
             <!-- not run: no -->\n```console\n$ x\n```\n```sh\ny\n```\n",
        );
        let [Part::Setup(setup), Part::File { path, text }, Part::Block(run), Part::Block(shown)] =
            &page.parts[..]
        else {
            panic!("{page:?}")
        };
        assert_eq!((&**setup, &**path, &**text), ("A=1", "~/x", "a = 1\n"));
        let steps: Vec<_> = run.steps.iter().map(|s| (s.line, &*s.command, &*s.expected)).collect();
        assert_eq!(steps, [(12, "cat <<END\nb\nEND", "b\n"), (16, "echo a \\\n  b", "a b\n")]);
        assert_eq!(shown.not_run.as_deref(), Some("no"));
    }
}
