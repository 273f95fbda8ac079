//! What a machine lacks to build and to test, said first, then installed by its own package manager.

use crate::apt::{Archives, Status, Tree};
use crate::sh;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::process::Command;

/// What for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum For {
    /// To build and run the tracer.
    Building,
    /// To run every test too.
    Testing,
}

/// How a need is seen to be met.
enum Seen {
    Program(&'static str),
    Header(&'static str),
}

/// One thing a machine must have.
struct Need {
    seen: Seen,
    why: &'static str,
    by: For,
    apt: &'static str,
    dnf: &'static str,
    pacman: &'static str,
}

const fn need(seen: Seen, by: For, why: &'static str, packages: [&'static str; 3]) -> Need {
    Need { seen, why, by, apt: packages[0], dnf: packages[1], pacman: packages[2] }
}

use For::{Building, Testing};
use Seen::{Header, Program};

const NEEDS: [Need; 10] = [
    need(Program("cc"), Building, "links the program and compiles libbpf", ["gcc", "gcc", "gcc"]),
    need(Program("clang"), Building, "compiles the BPF programs", ["clang", "clang", "clang"]),
    need(Program("make"), Building, "builds libbpf", ["make", "make", "make"]),
    need(
        Program("pkg-config"),
        Building,
        "is asked for by libbpf's build",
        ["pkg-config", "pkgconf-pkg-config", "pkgconf"],
    ),
    need(
        Header("libelf.h"),
        Building,
        "is what libbpf reads objects with",
        ["libelf-dev", "elfutils-libelf-devel", "libelf"],
    ),
    need(Header("zlib.h"), Building, "is what libelf unpacks with", ["zlib1g-dev", "zlib-devel", "zlib"]),
    need(
        Program("clang-format"),
        Testing,
        "judges the layout of the C files",
        ["clang-format", "clang-tools-extra", "clang"],
    ),
    need(Program("c++"), Testing, "compiles the fuzzer", ["g++", "gcc-c++", "gcc"]),
    need(
        Program("valgrind"),
        Testing,
        "watches the memory of the ring's tests",
        ["valgrind", "valgrind", "valgrind"],
    ),
    need(
        Program("qemu-system-x86_64"),
        Testing,
        "runs the guests' kernels",
        ["qemu-system-x86", "qemu-system-x86-core", "qemu-system-x86"],
    ),
];

/// What tests compare with: those that want it are skipped without it.
const WANTS: [Need; 3] = [
    need(
        Program("bpftrace"),
        Testing,
        "prints the same events, or ours are wrong",
        ["bpftrace", "bpftrace", "bpftrace"],
    ),
    need(Program("perf"), Testing, "reads our recordings", ["linux-perf", "perf", "perf"]),
    need(
        Program("babeltrace2"),
        Testing,
        "reads what perf converts of them",
        ["babeltrace2", "babeltrace2", "babeltrace2"],
    ),
];

impl Need {
    fn is_met(&self) -> bool {
        match self.seen {
            Program(name) => sh::find(name).is_some(),
            Header(name) => {
                let args = ["-fsyntax-only", "-include", name, "-x", "c", "/dev/null"];
                sh::succeeds(&mut sh::cmd("cc", args))
            }
        }
    }

    fn name(&self) -> &'static str {
        match self.seen {
            Program(name) | Header(name) => name,
        }
    }
}

/// The package managers we can speak to.
#[derive(Clone, Copy)]
enum Manager {
    Apt,
    Dnf,
    Pacman,
}

impl Manager {
    fn of_this_machine() -> Option<Self> {
        let known = [("apt-get", Self::Apt), ("dnf", Self::Dnf), ("pacman", Self::Pacman)];
        known.into_iter().find(|(program, _)| sh::find(program).is_some()).map(|(_, manager)| manager)
    }

    fn package(self, need: &Need) -> &'static str {
        match self {
            Self::Apt => need.apt,
            Self::Dnf => need.dnf,
            Self::Pacman => need.pacman,
        }
    }
}

/// `cargo xtask setup [--tests]`
pub fn run(args: &[String]) -> Result<u8> {
    let by = match args {
        [] => Building,
        [flag] if flag == "--tests" => Testing,
        _ => bail!("setup takes --tests or nothing"),
    };
    set_up(by)?;
    println!("all that is needed is here");
    Ok(0)
}

/// Installs what is missing, saying first what and why; silent where nothing is.
pub fn set_up(by: For) -> Result<()> {
    needs(by)?;
    wants(by);
    Ok(())
}

fn wants(by: For) {
    for want in WANTS.iter().filter(|want| want.by <= by && !want.is_met()) {
        println!("wanted on this machine: {}, which {}", want.name(), want.why);
        let manager = Manager::of_this_machine().context("none of apt-get, dnf and pacman is here");
        let done = manager.and_then(|manager| install(manager, &BTreeSet::from([manager.package(want)])));
        if let Err(error) = done {
            println!("{} cannot be had, and tests that want it are skipped: {error:#}", want.name());
        }
    }
}

fn needs(by: For) -> Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| need.by <= by && !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let manager = Manager::of_this_machine();
    let packages =
        |manager: Manager| -> BTreeSet<&str> { missing.iter().map(|need| manager.package(need)).collect() };
    println!("missing on this machine:");
    for need in &missing {
        let package =
            manager.map(|manager| format!(" (package {})", manager.package(need))).unwrap_or_default();
        println!("  {}, which {}{package}", need.name(), need.why);
    }
    let Some(manager) = manager else {
        let names: Vec<_> = missing.iter().map(|need| need.name()).collect();
        bail!("none of apt-get, dnf and pacman is here: install {} by hand", names.join(", "));
    };
    let mut packages = packages(manager);
    if matches!(manager, Manager::Apt) && packages.contains("qemu-system-x86") && newer_qemu() {
        packages.remove("qemu-system-x86");
    }
    install(manager, &packages)?;
    let unmet: Vec<_> = missing.iter().filter(|need| !need.is_met()).map(|need| need.name()).collect();
    if !unmet.is_empty() {
        bail!("still missing after the install: {}; install them by hand", unmet.join(", "));
    }
    Ok(())
}

fn install(manager: Manager, packages: &BTreeSet<&str>) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let with =
        |words: &[&'static str]| words.iter().copied().chain(packages.iter().copied()).collect::<Vec<_>>();
    match manager {
        Manager::Apt => {
            let words = with(&["install", "-y", "-q", "--no-install-recommends"]);
            if !sh::succeeds(&mut sh::cmd("apt-get", ["-s"].iter().chain(&words))) {
                say_and_do(&mut sh::as_root("apt-get", ["-q", "update"])?)?;
            }
            let mut command = sh::as_root("apt-get", words)?;
            say_and_do(command.env("DEBIAN_FRONTEND", "noninteractive"))
        }
        Manager::Dnf => say_and_do(&mut sh::as_root("dnf", with(&["install", "-y"]))?),
        Manager::Pacman => say_and_do(&mut sh::as_root("pacman", with(&["-S", "--needed", "--noconfirm"]))?),
    }
}

/// Runs a command of the package manager; what it prints is shown only if it fails.
fn say_and_do(command: &mut Command) -> Result<()> {
    println!("+ {}", sh::shown(command));
    sh::text(command).map(drop)
}

/// Debian 12's own QEMU is 7.2; its backports have 10, under which the guests are steadier. Taken from there without
/// touching the machine's apt sources, and only if nothing that is installed would change. Where that cannot be, the
/// machine's own will do: the guests choose their flags by the version found.
fn newer_qemu() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !release.lines().any(|line| line == "VERSION_CODENAME=bookworm") {
        return false;
    }
    let done = from_backports()
        .context("QEMU 10 cannot be had from bookworm-backports, so the machine's own is taken");
    if let Err(error) = &done {
        println!("{error:#}");
    }
    done.is_ok()
}

fn from_backports() -> Result<()> {
    let suites = ["bookworm", "bookworm-updates", "bookworm-backports"];
    let tree = Tree::new(&Archives::of_this_machine()?, &suites, true, Status::Machine)?;
    let words =
        ["install", "-y", "-q", "--no-install-recommends", "-t", "bookworm-backports", "qemu-system-x86"];
    let plan = sh::text(tree.get(["-s"]).args(words))?;
    let changed = plan.lines().filter(|line| line.starts_with("Remv ") || upgrades(line)).count();
    if changed > 0 {
        bail!("it would change {changed} installed packages");
    }
    let options = tree.options();
    let all = options.iter().map(String::as_str).chain(words);
    println!("+ apt-get {} (from bookworm-backports, by lists of our own)", words.join(" "));
    sh::text(sh::as_root("apt-get", all)?.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

/// `Inst NAME [OLD] (NEW …)` is an upgrade; a new package has no version in brackets before its parenthesis.
fn upgrades(line: &str) -> bool {
    line.starts_with("Inst ") && line.split(" (").next().is_some_and(|head| head.contains(" ["))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_told_from_a_new_package() {
        assert!(upgrades("Inst libc6 [2.36-9] (2.37-1 Debian:x [amd64])"));
        assert!(!upgrades("Inst seabios (1.16.3-2 Debian Backports:x [all])"));
        assert!(!upgrades("Conf seabios (1.16.3-2 Debian Backports:x [all])"));
    }

    #[test]
    fn building_asks_for_less_than_testing() {
        let building = NEEDS.iter().filter(|need| need.by <= Building).count();
        assert!(building > 0 && building < NEEDS.len());
    }

    #[test]
    fn a_header_that_exists_nowhere_is_not_met() {
        let packages = ["x", "x", "x"];
        assert!(!need(Header("no/such/header.h"), Building, "is a test", packages).is_met());
        assert!(!need(Program("no-such-program"), Building, "is a test", packages).is_met());
    }
}
