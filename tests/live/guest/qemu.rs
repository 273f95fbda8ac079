//! QEMU: how a guest is started, asked, and ended; its console is its serial line, which is our pipe.

use super::{Ask, Say, Setting, image, kernel_dir};
use crate::job::tail;
use crate::table::{Kernel, Variant};
use anyhow::{Context as _, Error, anyhow};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
/// A boot takes two seconds; on a loaded machine it has taken forty.
const BOOT: Duration = Duration::from_secs(180);
/// How long after a test's own limit its verdict may come.
const GRACE: Duration = Duration::from_secs(60);

/// What went wrong, by whose it is.
pub enum Fault {
    /// The guest's or QEMU's, before the test began: worth another try.
    Machinery(Error),
    /// Something that must be here is not: no try will bring it.
    Missing(Error),
    /// The test's: the guest fell silent or ended while it ran.
    Test(Error),
}

/// A running guest. QEMU ends when this goes.
pub struct Guest {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    mark: String,
    console: String,
    // QEMU reads it while it starts.
    _initramfs: tempfile::NamedTempFile,
}

impl Guest {
    /// Boots a kernel and waits until its pid 1 is ready.
    pub fn boot(kernel: Kernel, variant: Variant, extra: &[PathBuf]) -> Result<Self, Fault> {
        let dir = kernel_dir(kernel);
        let name = kernel.name();
        let release = std::fs::read_to_string(dir.join("release")).map_err(|error| {
            let wanted = format!("no kernel {name} in {}: run `cargo xtask vm fetch {name}`", dir.display());
            Fault::Missing(Error::new(error).context(wanted))
        })?;
        let nonce = format!("{:016x}", RandomState::new().build_hasher().finish());
        let setting = Setting { nonce: nonce.clone(), release: release.trim().to_owned() };
        let mut files = extra.to_vec();
        if variant == Variant::Bpftrace {
            files.extend(image::find("bpftrace"));
        }
        let initramfs = write(&setting, &files).map_err(Fault::Missing)?;
        let mut command = Command::new(QEMU);
        command.args(machine(variant, version().map_err(Fault::Missing)?));
        command.arg("-kernel").arg(dir.join("vmlinuz")).arg("-initrd").arg(initramfs.path());
        command.args(["-append", &command_line(variant)]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let started =
            command.spawn().with_context(|| format!("cannot run `{QEMU}`: run `cargo xtask setup --tests`"));
        let mut child = started.map_err(Fault::Missing)?;
        let (stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n') {
                let Ok(line) = line else { break };
                if send.send(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()).is_err() {
                    break;
                }
            }
        });
        let mark = format!("@@{nonce} ");
        let mut guest = Self { child, stdin, lines, mark, console: String::new(), _initramfs: initramfs };
        match guest.listen(BOOT, false) {
            Ok(Say::Ready) => Ok(guest),
            Ok(other) => Err(Fault::Machinery(anyhow!("pid 1 began with {other:?}"))),
            Err(error) => Err(Fault::Machinery(error.context(format!("the guest {name} did not come up")))),
        }
    }

    /// Asks for a test or a command and waits for its answer; `show` passes on what it prints.
    pub fn ask(&mut self, ask: &Ask, limit: Duration, show: bool) -> Result<Say, Fault> {
        self.console.clear();
        let mut line = serde_json::to_string(ask).expect("a request is JSON");
        line.push('\n');
        let written = self.stdin.write_all(line.as_bytes()).and_then(|()| self.stdin.flush());
        written.context("cannot write to the guest's console").map_err(Fault::Machinery)?;
        match self.listen(BOOT, false) {
            Ok(Say::Started) => {}
            Ok(other) => return Err(Fault::Machinery(anyhow!("pid 1 answered a request with {other:?}"))),
            Err(error) => return Err(Fault::Machinery(error)),
        }
        self.console.clear();
        self.listen(limit + GRACE, show).map_err(Fault::Test)
    }

    /// What the guest has printed since it was asked.
    pub fn console(&self) -> &str {
        tail(&self.console)
    }

    /// The next word of pid 1. What else the console says is kept, and its end is part of the error.
    fn listen(&mut self, limit: Duration, show: bool) -> anyhow::Result<Say> {
        let end = Instant::now() + limit;
        loop {
            let line = match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.silent(&format!("said nothing for {limit:?}")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.silent("ended without a verdict")),
            };
            if let Some(at) = line.find(&self.mark) {
                let text = &line[at + self.mark.len()..];
                return serde_json::from_str(text)
                    .with_context(|| format!("cannot understand pid 1's `{text}`"));
            }
            if show && !(line.is_empty() && self.console.is_empty()) {
                println!("{line}");
            }
            self.console.push_str(&line);
            self.console.push('\n');
        }
    }

    fn silent(&self, what: &str) -> Error {
        anyhow!("the guest {what}\n--- its console\n{}\n---", self.console())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(setting: &Setting, extra: &[PathBuf]) -> anyhow::Result<tempfile::NamedTempFile> {
    let dir = env!("CARGO_TARGET_TMPDIR");
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {dir}"))?;
    let mut file =
        tempfile::NamedTempFile::new_in(dir).with_context(|| format!("cannot make a file in {dir}"))?;
    let bytes = image::build(setting, extra).context("cannot make the guest's initramfs")?;
    file.write_all(&bytes).context("cannot write the guest's initramfs")?;
    Ok(file)
}

/// QEMU's own main version.
fn version() -> anyhow::Result<u32> {
    let output = Command::new(QEMU).arg("--version").output();
    let output = output.with_context(|| format!("cannot run `{QEMU}`: run `cargo xtask setup --tests`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split("version ").nth(1).and_then(|rest| rest.split('.').next()?.parse().ok());
    number.with_context(|| format!("cannot read a version from `{QEMU} --version`: {text}"))
}

/// The machine's flags.
fn machine(variant: Variant, version: u32) -> Vec<String> {
    // QEMU 7's cmpxchg16b leaves garbage in EFLAGS, and kernels from 6.12 oops on it. CPUs that take turns make
    // runs steadier still; with 10 both are sound, and only a test of true parallelism asks for it.
    let cpu = if version >= 10 { "max" } else { "max,-cx16" };
    let accel = if variant == Variant::Parallel { "tcg,thread=multi" } else { "tcg,thread=single" };
    let cpus = if variant == Variant::FourCpus { "4" } else { "2" };
    let memory = if variant == Variant::Bpftrace { "2048" } else { "768" };
    let flags = format!(
        "-nodefaults -no-user-config -no-reboot -accel {accel} -cpu {cpu} -smp {cpus} -m {memory} -display none -monitor none -serial stdio"
    );
    flags.split(' ').map(str::to_owned).collect()
}

/// The kernel's command line.
fn command_line(variant: Variant) -> String {
    let more = match variant {
        Variant::Plain | Variant::FourCpus | Variant::Parallel | Variant::Bpftrace => "",
        Variant::Lockdown => " lockdown=confidentiality",
        Variant::Paranoid2 => " sysctl.kernel.perf_event_paranoid=2",
        Variant::OneOnline => " maxcpus=1",
        Variant::PreemptFull => " preempt=full",
    };
    format!("console=ttyS0 quiet panic=-1 oops=panic rdinit=/init{more}")
}
