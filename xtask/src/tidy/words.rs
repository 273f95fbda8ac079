//! Rules on words: those that say nothing or promise too much, and names of machines.

use super::source::has_word;
use super::{File, Finding};

/// Words that are not used here, whatever their case.
const BANNED: [&str; 10] = [
    "simply",
    "just works",
    "blazing",
    "blazingly",
    "seamless",
    "seamlessly",
    "hack",
    "effortless",
    "leverage",
    "robustly",
];
/// Marks of work left undone: it belongs in an issue.
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];
/// Folders of one person's machine; that of whoever runs this is another.
const HOMES: [&str; 2] = ["/home/", "/Users/"];
/// How hosts of mirrors and registries begin.
const HOSTS: [&str; 8] = ["deb", "mirror", "mirrors", "registry", "archive", "snapshot", "security", "index"];

/// Words and marks that have no place.
pub fn banned(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in lines(file) {
        let lower = line.to_lowercase();
        for word in BANNED.iter().filter(|word| has_word(&lower, word)) {
            findings.push((at + 1, format!("the word `{word}` is not used here: say what is so")));
        }
        for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
            findings.push((at + 1, format!("`{mark}`: finish it, or file an issue")));
        }
    }
    findings
}

/// Paths and hosts of one machine.
pub fn places(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in lines(file) {
        let own = std::env::var("HOME").map(|home| format!("{home}/")).ok();
        for home in HOMES.into_iter().chain(own.as_deref()).filter(|home| named(line, home)) {
            findings.push((at + 1, format!("a path under `{home}` is one machine's own")));
        }
        for (begin, _) in line.match_indices("://") {
            let host: String = line[begin + 3..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '-'))
                .collect();
            let label = host.split('.').next().unwrap_or_default();
            if HOSTS.contains(&label) && !host.ends_with(".example") {
                findings.push((
                    at + 1,
                    format!("the host `{host}` is a mirror's or a registry's: take it from the machine"),
                ));
            }
        }
    }
    findings
}

/// A folder at the beginning of a path, not within one.
fn named(line: &str, home: &str) -> bool {
    line.match_indices(home)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || ".-_}*".contains(c)))
}

/// The lines of a file that people write; this list of words is not judged by itself.
fn lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let judged = file.is(&["rs", "c", "h", "md", "toml", "sh", "yml"]) || file.path.starts_with(".ci/");
    let judged = judged && file.path != "xtask/src/tidy/words.rs";
    file.text.lines().enumerate().filter(move |_| judged)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn banned_words_and_marks_are_found() {
        let found = banned(&file("README.md", "It Just works.\nfine\n// TODO: later\n\\xXXX hacksaw\n"));
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let found = places(&file("src/a.rs", "open(\"/home/me/x\")\n\"src/home/x\"\n\"/home:/bin\"\n"));
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_mirrors_host_is_found() {
        let text = "a = \"https://mirror.some.org/x\"\nb = \"http://mirror.example/x\"\nc = \"https://docs.kernel.org\"\n";
        let found = places(&file("a.toml", text));
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1]);
    }
}
