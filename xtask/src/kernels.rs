//! The guests' kernels: Debian's cloud images, fetched as packages and never installed; only `vmlinuz` is kept.

use crate::apt::{Archives, Status, Tree};
use crate::sh;
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// One kernel the guests run.
pub struct Kernel {
    /// As the user says it, and its folder under `target/kernels`.
    pub name: &'static str,
    /// The test target that runs it.
    pub target: &'static str,
    suite: &'static str,
    security: bool,
}

/// Every kernel the live tests run on, the oldest first.
pub const KERNELS: [Kernel; 4] = [
    Kernel { name: "5.10", target: "guest_5_10", suite: "bullseye", security: true },
    Kernel { name: "6.1", target: "guest_6_1", suite: "bookworm", security: true },
    Kernel { name: "6.12", target: "guest_6_12", suite: "trixie", security: true },
    Kernel { name: "newest", target: "guest_newest", suite: "sid", security: false },
];

const META: &str = "linux-image-cloud-amd64";

impl Kernel {
    /// The kernel of that name.
    pub fn named(name: &str) -> Result<&'static Self> {
        KERNELS.iter().find(|kernel| kernel.name == name).with_context(|| {
            let names: Vec<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
            format!("no kernel `{name}`: the guests run {}", names.join(", "))
        })
    }

    fn dir(&self) -> PathBuf {
        sh::root().join("target/kernels").join(self.name)
    }

    /// Whether it lies in the cache.
    pub fn is_here(&self) -> bool {
        self.dir().join("vmlinuz").is_file() && self.dir().join("release").is_file()
    }

    /// Fetches it, whether or not it lies in the cache.
    pub fn fetch(&self) -> Result<()> {
        let begin = Instant::now();
        let (release, image) = self.image().with_context(|| {
            format!(
                "cannot fetch kernel {} from the suite `{}` (or leave it out: --without {0})",
                self.name, self.suite
            )
        })?;
        let dir = self.dir();
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        std::fs::write(dir.join("release"), &release)?;
        // By rename, so that a kernel in the cache is a whole one.
        std::fs::write(dir.join("vmlinuz.part"), image)?;
        std::fs::rename(dir.join("vmlinuz.part"), dir.join("vmlinuz"))?;
        println!("kernel {}: {release}, fetched in {:.1} s", self.name, begin.elapsed().as_secs_f32());
        Ok(())
    }

    /// The kernel's release (what `uname -r` says) and its image.
    fn image(&self) -> Result<(String, Vec<u8>)> {
        can_fetch()?;
        let archives = Archives::of_this_machine()?;
        let tree = Tree::new(&archives, &[self.suite], self.security, Status::Empty)?;
        // The meta package depends on the image, which in newer suites depends on the package that holds it.
        let mut wanted = VecDeque::from(depends(&tree, META)?);
        let mut release = None;
        while let Some(package) = wanted.pop_front() {
            if release.is_none() {
                release = package.strip_prefix("linux-image-").map(str::to_owned);
            }
            sh::text(tree.get(["-q", "download", &package]).current_dir(tree.dir()))?;
            if let Some(image) = vmlinuz(tree.dir())? {
                return Ok((release.unwrap_or(package), image));
            }
            wanted.extend(depends(&tree, &package)?);
        }
        bail!("no package that `{META}` depends on holds a vmlinuz")
    }
}

/// Whether this machine can fetch kernels at all; an error says why not.
pub fn can_fetch() -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!("the guests are x86-64 machines, and this is {}", std::env::consts::ARCH);
    }
    if sh::find("dpkg-deb").is_none() {
        bail!("the guests' kernels come as Debian packages, and neither dpkg-deb nor apt is on this machine");
    }
    Archives::of_this_machine().map(drop)
}

/// The packages of a kernel that a package depends on.
fn depends(tree: &Tree, package: &str) -> Result<Vec<String>> {
    Ok(kernel_packages(&sh::text(&mut tree.cache(["depends", "--important", package]))?))
}

fn kernel_packages(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let kept = ["linux-image-", "linux-binary-", "linux-modules-"];
    names.filter(|name| kept.iter().any(|start| name.starts_with(start))).map(str::to_owned).collect()
}

/// Unpacks the one package in `dir`, removes it, and returns the kernel image it held.
fn vmlinuz(dir: &Path) -> Result<Option<Vec<u8>>> {
    let unpacked = dir.join("unpacked");
    for entry in std::fs::read_dir(dir)? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == "deb") {
            sh::text(sh::cmd("dpkg-deb", ["-x"]).arg(&file).arg(&unpacked))?;
            std::fs::remove_file(&file)?;
        }
    }
    let image = find_vmlinuz(&unpacked)?.map(std::fs::read).transpose()?;
    let _ = std::fs::remove_dir_all(&unpacked);
    Ok(image)
}

fn find_vmlinuz(dir: &Path) -> Result<Option<PathBuf>> {
    // `boot/vmlinuz-RELEASE`, or in newer suites `usr/lib/modules/RELEASE/vmlinuz`.
    let mut folders = vec![dir.join("boot")];
    for modules in ["lib/modules", "usr/lib/modules"] {
        if let Ok(entries) = std::fs::read_dir(dir.join(modules)) {
            folders.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
    }
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten() {
        let file = entry?.path();
        if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meta_package_leads_to_the_image() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-9-cloud-amd64\n  Depends: kmod\n  Recommends: linux-image-x\n";
        assert_eq!(kernel_packages(text), ["linux-image-6.1.0-9-cloud-amd64"]);
    }

    #[test]
    fn the_image_is_found_at_either_place() {
        for place in ["boot/vmlinuz-6.1", "usr/lib/modules/7.1/vmlinuz"] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join(place);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "x").unwrap();
            assert_eq!(find_vmlinuz(dir.path()).unwrap(), Some(file));
        }
    }

    #[test]
    fn an_unknown_kernel_is_told_the_known_ones() {
        let error = Kernel::named("4.19").err().unwrap().to_string();
        assert!(error.contains("5.10, 6.1, 6.12, newest"), "{error}");
    }
}
