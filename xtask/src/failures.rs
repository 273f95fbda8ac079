//! Why tests failed: their names and messages as a test runner prints them, each cut to what a summary has room for.

/// The lines of a message that are shown: from its beginning, where a test says what does not hold, and from its end.
const LINES: (usize, usize) = (8, 4);
/// The same in characters.
const CHARS: (usize, usize) = (1000, 500);
/// Of how many tests the messages are shown; of the others the names.
const MESSAGES: usize = 12;

/// The failures of a run of tests, read from its lines.
#[derive(Debug, Default)]
pub struct Failures {
    /// Names and messages, in the order they came; no message from a runner that died before it could tell it.
    found: Vec<(String, String)>,
    /// Between `failures:` and `test result: `, where the messages are.
    telling: bool,
    /// The message that the next lines belong to.
    open: Option<usize>,
}

impl Failures {
    /// Takes a line, without its end.
    pub fn line(&mut self, line: &str) {
        if line == "failures:" {
            (self.telling, self.open) = (true, None);
        } else if line.starts_with("test result: ") {
            (self.telling, self.open) = (false, None);
        } else if let Some(name) = self.telling.then(|| heading(line)).flatten() {
            self.open = Some(self.named(name));
        } else if let Some(open) = self.open {
            let (_, message) = &mut self.found[open];
            message.push_str(line);
            message.push('\n');
        } else if let Some((name, _)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... FAILED"))
        {
            // Before a name in brackets its kind, which is not repeated at the message.
            let name = name.strip_prefix('[').and_then(|rest| Some(rest.split_once("] ")?.1)).unwrap_or(name);
            self.named(name.trim());
        }
    }

    /// Where that test's message goes. Of two programs' tests of one name, each has its own.
    fn named(&mut self, name: &str) -> usize {
        let without = |(known, message): &(String, String)| known == name && message.is_empty();
        self.found.iter().position(without).unwrap_or_else(|| {
            self.found.push((name.to_owned(), String::new()));
            self.found.len() - 1
        })
    }

    /// A text for each failure: the name, and below it the message.
    pub fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (nth, (name, message)) in self.found.iter().enumerate() {
            let message = if nth < MESSAGES { brief(message) } else { String::new() };
            let below: String = message.lines().map(|line| format!("\n    {line}")).collect();
            told.push(format!("{name}{below}"));
        }
        told
    }
}

/// The name in `---- NAME ----`, as libtest-mimic heads a message, or `---- NAME stdout ----`, as libtest does.
fn heading(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(name.strip_suffix(" stdout").unwrap_or(name))
}

/// What a summary has room for of a message: from where the test panicked, if it did, with the middle left out.
pub fn brief(message: &str) -> String {
    let from = message.lines().position(|line| line.contains(" panicked at ")).unwrap_or(0);
    let lines: Vec<&str> = message.lines().skip(from).filter(|line| !line.trim().is_empty()).collect();
    let text = match lines.len().checked_sub(LINES.0 + LINES.1) {
        None | Some(0) => lines.join("\n"),
        Some(left_out) => {
            let (head, rest) = lines.split_at(LINES.0);
            let note = format!("[{left_out} lines left out]");
            [head, &[note.as_str()], &rest[left_out..]].concat().join("\n")
        }
    };
    let chars: Vec<char> = text.chars().collect();
    match chars.len().checked_sub(CHARS.0 + CHARS.1) {
        None | Some(0) => text,
        Some(left_out) => {
            let (head, rest) = chars.split_at(CHARS.0);
            let [head, tail] = [head, &rest[left_out..]].map(|chars| chars.iter().collect::<String>());
            format!("{head} [{left_out} characters left out] {tail}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let mut failures = Failures::default();
        text.lines().for_each(|line| failures.line(line));
        failures.told()
    }

    #[test]
    fn both_runners_messages_are_kept() {
        let live = "test a ... ok\ntest script::x   ... FAILED\ntest [lockdown] y ... FAILED\n\nfailures:\n\n\
                    ---- script::x ----\none.data: 5 records, and ours 4\n--- its output\nheld\n\n\
                    ---- y ----\npanicked: no\n\n\nfailures:\n    script::x\n    y\n\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        let unit = "test b ... FAILED\n\nfailures:\n\n---- b stdout ----\nnoise\n\n\
                    thread 'b' (7) panicked at src/lib.rs:3:5:\nassertion failed: false\n\n\nfailures:\n    b\n\n\
                    test result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        assert_eq!(
            told(&[live, unit].concat()),
            [
                "script::x\n    one.data: 5 records, and ours 4\n    --- its output\n    held",
                "y\n    panicked: no",
                "b\n    thread 'b' (7) panicked at src/lib.rs:3:5:\n    assertion failed: false",
            ]
        );
    }

    #[test]
    fn two_of_one_name_are_two() {
        let one = "failures:\n---- a stdout ----\nfirst\nfailures:\n    a\ntest result: FAILED\n";
        assert_eq!(told(&[one, one].concat()), ["a\n    first"; 2]);
    }

    #[test]
    fn a_runner_that_dies_has_told_the_names() {
        assert_eq!(told("test a ... ok\ntest b ... FAILED\n"), ["b"]);
        // A heading that no runner printed is part of nothing.
        assert!(told("---- c ----\nhello\n").is_empty());
    }

    #[test]
    fn a_long_message_keeps_its_two_ends() {
        let lines: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let text = brief(&lines);
        assert_eq!(text.lines().count(), LINES.0 + 1 + LINES.1);
        assert!(text.starts_with("line 0\n") && text.ends_with("\nline 99"), "{text}");
        assert!(text.contains("\n[88 lines left out]\nline 96\n"), "{text}");
        let text = brief(&format!("{}end", "ä".repeat(5000)));
        assert!(text.chars().count() < CHARS.0 + CHARS.1 + 40 && text.ends_with("end"), "{text}");
        assert!(text.contains("[3503 characters left out]"), "{text}");
        assert_eq!(brief("short\n"), "short");
    }

    #[test]
    fn of_many_the_last_are_names_alone() {
        let blocks: String = (0..20).map(|n| format!("---- t{n} ----\nwhy\n\n")).collect();
        let told = told(&format!("failures:\n\n{blocks}failures:\ntest result: FAILED\n"));
        assert_eq!(told.len(), 20);
        assert_eq!((told[11].as_str(), told[12].as_str()), ("t11\n    why", "t12"));
    }
}
