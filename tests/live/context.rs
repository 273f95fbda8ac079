//! What a live test is handed: where it runs, a folder of its own, and the programs it may run.

use crate::guest::Setting;
use crate::job::Job;
use crate::table::{Kernel, Test, Variant};
use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where a test runs.
#[derive(Debug)]
pub struct Context {
    /// The kernel it was declared for.
    pub kernel: Kernel,
    /// The guest's variant.
    pub variant: Variant,
    /// The kernel's release: what `uname -r` says here.
    pub release: String,
    /// What `uname -r` should say: the release of the package the guest's kernel came from.
    pub expected_release: Option<String>,
    /// An empty folder of this test's own.
    pub scratch: PathBuf,
}

impl Context {
    /// The context of one test, from within its process.
    pub fn new(test: &Test, setting: Option<Setting>) -> Result<Self> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .context("cannot read the kernel's release")?;
        let parent = match setting {
            Some(_) => PathBuf::from("/scratch"),
            None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("live"),
        };
        let scratch = parent.join(format!("{}-{}", test.name.replace("::", "-"), std::process::id()));
        std::fs::create_dir_all(&scratch)
            .with_context(|| format!("cannot make the folder {}", scratch.display()))?;
        Ok(Self {
            kernel: Kernel::OURS,
            variant: test.variant,
            release: release.trim().to_owned(),
            expected_release: setting.map(|setting| setting.release),
            scratch,
        })
    }

    /// Whether this is a guest, where a test may do to the machine what it likes.
    pub fn is_guest(&self) -> bool {
        self.kernel != Kernel::Host
    }

    /// The kernel's version as two numbers, to compare: `ctx.version() >= (6, 7)`.
    pub fn version(&self) -> (u32, u32) {
        let mut numbers =
            self.release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// The path of the `tracer` program, the same on the host and in a guest.
    pub fn tracer_path(&self) -> &'static Path {
        Path::new(env!("CARGO_BIN_EXE_tracer"))
    }

    /// `tracer` with arguments.
    pub fn tracer<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Job {
        Job::new(self, self.tracer_path(), args)
    }

    /// The path of this program, which is the one that is traced where a test needs to know what it does.
    pub fn program_path(&self) -> Result<String> {
        Ok(std::env::current_exe().context("cannot find our own program")?.display().to_string())
    }

    /// Another program; in a guest there are those that `guest::image::TOOLS` names.
    pub fn job<S: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = S>) -> Job {
        Job::new(self, program, args)
    }

    /// `dd` that makes exactly `count` writes (and reads) of `bytes` each, and says nothing.
    pub fn dd(&self, count: u64, bytes: u64) -> Job {
        let (count, bytes) = (format!("count={count}"), format!("bs={bytes}"));
        self.job("dd", ["if=/dev/zero", "of=/dev/null", &count, &bytes, "status=none"])
    }

    /// A path by which `program` runs under another name, by which it can be told from others of its kind.
    pub fn renamed(&self, program: &str, name: &str) -> Result<String> {
        let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/bin:/bin";
        let found = folders.split(':').map(|dir| Path::new(dir).join(program)).find(|file| file.is_file());
        let found = found.with_context(|| format!("there is no program {program}"))?;
        let path = self.scratch.join(name);
        std::os::unix::fs::symlink(found, &path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// The CPUs that are online.
    pub fn online(&self) -> Result<Vec<u32>> {
        let file = "/sys/devices/system/cpu/online";
        list(std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?.trim())
    }

    /// Takes a CPU offline until the guard goes; in guests only.
    pub fn offline(&self, cpu: u32) -> Result<Offline> {
        if !self.is_guest() {
            bail!("a test may not take CPU {cpu} of the host offline");
        }
        switch(cpu, false)?;
        Ok(Offline(cpu))
    }
}

/// A CPU that is offline while this lives.
#[derive(Debug)]
pub struct Offline(u32);

impl Offline {
    /// Brings it back, with the error that `drop` cannot tell.
    pub fn back(self) -> Result<()> {
        switch(self.0, true)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = switch(self.0, true);
    }
}

/// Puts a CPU online or offline.
pub fn switch(cpu: u32, online: bool) -> Result<()> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    if std::fs::read_to_string(&file).is_ok_and(|now| now.trim() == if online { "1" } else { "0" }) {
        return Ok(());
    }
    std::fs::write(&file, if online { "1" } else { "0" }).with_context(|| {
        format!("cannot put CPU {cpu} {} by {file}", if online { "online" } else { "offline" })
    })
}

/// The numbers of a list as the kernel writes it: `0-3,8`.
fn list(text: &str) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number =
            |text: &str| text.parse::<u32>().with_context(|| format!("`{text}` in `{part}` is no CPU"));
        all.extend(number(first)?..=number(last)?);
    }
    Ok(all)
}
