//! A guest's files: an initramfs of this program, the tracer, a few tools, and the libraries they need.
//!
//! Every file has the path it has on the host, with the links on the way to it, so that paths known at compile time
//! hold in the guest too.

use super::{Ask, Setting};
use anyhow::{Context as _, Result, bail};
use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The programs of the host that a guest has. Those that a host lacks are left out.
pub const TOOLS: &[&str] = &[
    "sh", "cat", "chmod", "chown", "cp", "dd", "echo", "env", "false", "grep", "head", "id", "ip", "kill",
    "ls", "mkdir", "mkfifo", "nice", "nproc", "prlimit", "ps", "readlink", "rm", "script", "seq", "setpriv",
    "setsid", "sleep", "stty", "tail", "taskset", "tee", "timeout", "touch", "tr", "true", "uname",
    "unshare", "wc", "yes",
];

/// The folders that pid 1 mounts on or that programs expect.
const FOLDERS: &[&str] = &["/dev", "/proc", "/sys", "/scratch", "/run", "/tmp", "/root", "/etc", "/var/tmp"];

/// The files that a command names, so that they are in the guest.
pub fn command_files(ask: &Ask) -> Vec<PathBuf> {
    let Ask::Command(words, _) = ask else { return Vec::new() };
    let here = std::env::current_dir().unwrap_or_default();
    let mut files: Vec<PathBuf> =
        words.iter().map(|word| here.join(word)).filter(|file| file.is_file()).collect();
    files.extend(words.first().and_then(|word| find(word)));
    files
}

/// The initramfs, whole.
pub fn build(setting: &Setting, extra: &[PathBuf]) -> Result<Vec<u8>> {
    let me = std::env::current_exe().context("cannot find our own program")?;
    let mut programs = vec![me.clone(), PathBuf::from(env!("CARGO_BIN_EXE_tracer"))];
    programs.extend(TOOLS.iter().filter_map(|tool| find(tool)));
    programs.extend_from_slice(extra);
    let mut image = Image { bytes: Vec::with_capacity(32 << 20), seen: BTreeSet::new(), inode: 0 };
    // Readable by all: a test that is not root must reach /sys.
    image.entry(Path::new("."), ModeFileType::Directory, 0o755, b"")?;
    for folder in FOLDERS {
        image.folder(Path::new(folder), if folder.ends_with("tmp") { 0o1777 } else { 0o755 })?;
    }
    for program in programs.iter().chain(&libraries(&programs)?) {
        image.host_file(program)?;
    }
    let accounts =
        [("/etc/passwd", PASSWD), ("/etc/group", GROUP), ("/etc/nsswitch.conf", "passwd: files\n")];
    for (file, text) in accounts {
        image.text(file, text)?;
    }
    image
        .text(super::SETTING, &serde_json::to_string(setting).context("cannot write the guest's setting")?)?;
    image.entry(Path::new("/init"), ModeFileType::Symlink, 0o777, me.as_os_str().as_encoded_bytes())?;
    trailer(&mut image.bytes).context("cannot close the initramfs")?;
    Ok(image.bytes)
}

const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// A newc archive that grows.
struct Image {
    bytes: Vec<u8>,
    seen: BTreeSet<PathBuf>,
    inode: u32,
}

impl Image {
    /// A file of the host, at its path, with every folder and link on the way.
    fn host_file(&mut self, file: &Path) -> Result<()> {
        let mut at = PathBuf::from("/");
        let mut rest: Vec<PathBuf> = parts(file);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                at.pop();
                continue;
            }
            at.push(part);
            let meta =
                fs::symlink_metadata(&at).with_context(|| format!("cannot look at {}", at.display()))?;
            if meta.is_symlink() {
                links += 1;
                if links > 40 {
                    bail!("{} goes through too many links", file.display());
                }
                let target =
                    fs::read_link(&at).with_context(|| format!("cannot read the link {}", at.display()))?;
                if self.seen.insert(at.clone()) {
                    self.entry(&at, ModeFileType::Symlink, 0o777, target.as_os_str().as_encoded_bytes())?;
                }
                at = if target.is_absolute() {
                    PathBuf::from("/")
                } else {
                    at.parent().unwrap_or(&at).to_owned()
                };
                rest.extend(parts(&target));
            } else if meta.is_dir() {
                self.folder(&at, 0o755)?;
            } else if self.seen.insert(at.clone()) {
                let bytes = fs::read(&at).with_context(|| format!("cannot read {}", at.display()))?;
                // Whoever runs it in the guest, root or not, must be able to read it.
                self.entry(&at, ModeFileType::Regular, meta.permissions().mode() & 0o777 | 0o444, &bytes)?;
            }
        }
        Ok(())
    }

    /// A folder and those it lies in.
    fn folder(&mut self, path: &Path, mode: u32) -> Result<()> {
        if path == Path::new("/") || self.seen.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.folder(parent, 0o755)?;
        }
        self.seen.insert(path.to_owned());
        self.entry(path, ModeFileType::Directory, mode, b"")
    }

    fn text(&mut self, path: &str, text: &str) -> Result<()> {
        self.entry(Path::new(path), ModeFileType::Regular, 0o644, text.as_bytes())
    }

    fn entry(&mut self, path: &Path, kind: ModeFileType, mode: u32, bytes: &[u8]) -> Result<()> {
        let name = path
            .to_str()
            .with_context(|| format!("{} is not UTF-8", path.display()))?
            .trim_start_matches('/');
        self.inode += 1;
        let size =
            u32::try_from(bytes.len()).with_context(|| format!("{name} is too large for an initramfs"))?;
        let builder = Builder::new(name).ino(self.inode).nlink(1).mode(mode).set_mode_file_type(kind);
        let mut writer = builder.write(&mut self.bytes, size);
        writer
            .write_all(bytes)
            .and_then(|()| writer.finish().map(drop))
            .with_context(|| format!("cannot pack {name}"))
    }
}

/// The names along a path, the first one last.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    let mut names: Vec<PathBuf> = names.map(|part| PathBuf::from(part.as_os_str())).collect();
    names.reverse();
    names
}

/// Where a program is, along PATH and where root's programs are.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/bin:/sbin:/bin";
    path.split(':').map(|dir| Path::new(dir).join(program)).find(|file| file.is_file())
}

/// The libraries and loaders that programs need, as the host's loader finds them.
fn libraries(programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").args(programs).output().context("cannot run `ldd`")?;
    // `name => /path (0x…)` or `/path (0x…)`; of static programs and scripts it says that they are none of its.
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.lines().flat_map(str::split_whitespace);
    let found: BTreeSet<PathBuf> =
        words.filter(|word| word.starts_with('/') && !word.ends_with(':')).map(PathBuf::from).collect();
    if found.is_empty() {
        bail!("`ldd` finds no libraries: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(found)
}
