//! A private apt tree: another suite's packages by the machine's own mirror and keys, with the machine's apt left as it is.

use crate::sh;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One source of the machine's apt: where from, which suite, by whose key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    uri: String,
    suite: String,
    /// The field's value; an embedded key keeps its continuation lines.
    signed_by: Option<String>,
}

/// The machine's main and security archives.
#[derive(Debug)]
pub struct Archives {
    main: Source,
    security: Option<Source>,
}

impl Archives {
    /// Read from the machine's own apt sources; an error says why other suites cannot be had here.
    pub fn of_this_machine() -> Result<Self> {
        let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        if !release.lines().any(|line| line == "ID=debian") || sh::find("apt-get").is_none() {
            bail!("this is not a Debian machine: it has no apt sources that offer Debian's kernels");
        }
        let mut texts = Vec::new();
        if let Ok(text) = std::fs::read_to_string("/etc/apt/sources.list") {
            texts.extend(one_line(&text));
        }
        if let Ok(dir) = std::fs::read_dir("/etc/apt/sources.list.d") {
            let mut files: Vec<PathBuf> = dir.filter_map(|entry| Some(entry.ok()?.path())).collect();
            files.sort();
            for file in files {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                match file.extension().and_then(|end| end.to_str()) {
                    Some("sources") => texts.extend(deb822(&text)),
                    Some("list") => texts.extend(one_line(&text)),
                    _ => {}
                }
            }
        }
        Self::among(&texts, field(&release, "VERSION_CODENAME=").unwrap_or("stable"))
    }

    fn among(sources: &[Source], codename: &str) -> Result<Self> {
        let security = sources.iter().find(|source| source.suite.contains("-security")).cloned();
        let main = sources.iter().find(|source| source.suite == codename).cloned();
        let main = main.with_context(|| {
            format!("/etc/apt names no source for the suite `{codename}`, from whose mirror the kernels would come")
        })?;
        Ok(Self { main, security })
    }

    /// The deb822 text of a suite, with its security suite where the machine has one.
    fn text(&self, suites: &[&str], security: bool) -> String {
        let mut text = stanza(&self.main, &suites.join(" "));
        if let (true, Some(source)) = (security, &self.security) {
            text.push_str(&stanza(source, &format!("{}-security", suites[0])));
        }
        text
    }
}

fn stanza(source: &Source, suites: &str) -> String {
    let key = source.signed_by.as_ref().map(|key| format!("Signed-By: {key}\n")).unwrap_or_default();
    format!("Types: deb\nURIs: {}\nSuites: {suites}\nComponents: main\n{key}\n", source.uri)
}

/// Whether apt should look at the machine's own installed packages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// None is installed: for fetching only.
    Empty,
    /// The machine's: for installing.
    Machine,
}

/// An apt whose sources and lists lie in a folder of ours, which goes when this does.
pub struct Tree {
    dir: PathBuf,
    status: Status,
}

impl Tree {
    /// Makes the tree and fetches its lists.
    pub fn new(archives: &Archives, suites: &[&str], security: bool, status: Status) -> Result<Self> {
        let dir = sh::root().join("target/apt").join(suites.last().unwrap_or(&"none"));
        let _ = std::fs::remove_dir_all(&dir);
        for sub in ["parts", "state/lists/partial", "cache/archives/partial"] {
            let sub = dir.join(sub);
            std::fs::create_dir_all(&sub).with_context(|| format!("cannot make {}", sub.display()))?;
        }
        let tree = Self { dir, status };
        std::fs::write(tree.dir.join("parts/suite.sources"), archives.text(suites, security))?;
        std::fs::write(tree.dir.join("status"), "")?;
        sh::text(&mut tree.get(["-q", "update"]))
            .with_context(|| format!("cannot read the lists of the suite `{}`", suites.join(" ")))?;
        Ok(tree)
    }

    /// `apt-get` in this tree.
    pub fn get<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = sh::cmd("apt-get", self.options());
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// `apt-cache` in this tree.
    pub fn cache<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = sh::cmd("apt-cache", self.options());
        command.args(args);
        command
    }

    /// The options that make an apt command one of this tree.
    pub fn options(&self) -> Vec<String> {
        let at = |sub: &str| self.dir.join(sub).display().to_string();
        let mut options = vec![
            format!("Dir::State::Lists={}", at("state/lists")),
            format!("Dir::Cache={}", at("cache")),
            "Dir::Etc::SourceList=/dev/null".to_owned(),
            format!("Dir::Etc::SourceParts={}", at("parts")),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=3".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            // A suite out of support keeps an index whose date has passed.
            "Acquire::Check-Valid-Until=false".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
        ];
        if self.status == Status::Empty {
            options.push(format!("Dir::State={}", at("state")));
            options.push(format!("Dir::State::Status={}", at("status")));
            options.push("APT::Architecture=amd64".to_owned());
        }
        options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect()
    }

    /// A folder that lives as long as the tree.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim().trim_matches('"'))
}

/// The sources of a deb822 file; disabled and source-only stanzas are left out.
fn deb822(text: &str) -> Vec<Source> {
    let text: String =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let mut sources = Vec::new();
    for stanza in text.split("\n\n") {
        let value = |name: &str| {
            let mut lines = stanza.lines().skip_while(|line| !line.to_ascii_lowercase().starts_with(name));
            let first = lines.next()?.split_once(':')?.1.trim().to_owned();
            let rest = lines.take_while(|line| line.starts_with([' ', '\t']));
            Some(rest.fold(first, |all, line| all + "\n" + line))
        };
        let binary = value("types:").is_some_and(|types| types.split_whitespace().any(|kind| kind == "deb"));
        let off = value("enabled:").is_some_and(|word| word == "no" || word == "false");
        if let (true, false, Some(uris), Some(suites)) = (binary, off, value("uris:"), value("suites:")) {
            let uri = uris.split_whitespace().next().unwrap_or_default();
            for suite in suites.split_whitespace() {
                let (uri, suite) = (uri.to_owned(), suite.to_owned());
                sources.push(Source { uri, suite, signed_by: value("signed-by:") });
            }
        }
    }
    sources
}

/// The sources of a file in the one-line style.
fn one_line(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for line in text.lines() {
        let Some(line) = line.trim().strip_prefix("deb ") else { continue };
        let (options, rest) = match line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, rest)) => (options, rest),
            None => ("", line),
        };
        let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        let mut words = rest.split_whitespace();
        if let (Some(uri), Some(suite)) = (words.next(), words.next()) {
            let (uri, suite) = (uri.to_owned(), suite.to_owned());
            sources.push(Source { uri, suite, signed_by: signed_by.map(str::to_owned) });
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n\
        Signed-By: /usr/share/keyrings/a.gpg\n\nTypes: deb-src\nURIs: http://mirror.example/src\nSuites: bookworm\n\n\
        Types: deb\nURIs: http://mirror.example/security\nSuites: bookworm-security\nSigned-By:\n -----BEGIN\n .\n";

    #[test]
    fn both_styles_of_sources_are_read() {
        let sources = deb822(DEB822);
        assert_eq!(sources.len(), 3);
        assert_eq!(sources[1].suite, "bookworm-updates");
        assert_eq!(sources[2].signed_by.as_deref(), Some("\n -----BEGIN\n ."));
        let line = one_line("# no\ndeb [arch=amd64 signed-by=/k.gpg] http://mirror.example/d trixie main\n");
        let signed_by = Some("/k.gpg".to_owned());
        let (uri, suite) = ("http://mirror.example/d".to_owned(), "trixie".to_owned());
        assert_eq!(line, [Source { uri, suite, signed_by }]);
    }

    #[test]
    fn another_suite_takes_the_machines_mirror_and_key() {
        let archives = Archives::among(&deb822(DEB822), "bookworm").unwrap();
        let text = archives.text(&["bullseye"], true);
        assert!(text.contains("URIs: http://mirror.example/debian\nSuites: bullseye\n"), "{text}");
        assert!(text.contains("URIs: http://mirror.example/security\nSuites: bullseye-security\n"), "{text}");
        assert!(!archives.text(&["sid"], false).contains("security"));
    }

    #[test]
    fn a_machine_without_its_own_suite_is_told_so() {
        let error = Archives::among(&[], "bookworm").unwrap_err().to_string();
        assert!(error.contains("`bookworm`"), "{error}");
    }
}
