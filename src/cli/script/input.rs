//! The recording that was named: a file or the files of a directory, mapped, or what comes through a pipe.
//!
//! JUSTIFICATION: a file larger than memory is read where it lies. That is a mapping, and safe only as long as nobody
//! cuts the file meanwhile: then the kernel ends this process with SIGBUS, as it does perf. Records that are added at
//! its end change nothing.
#![allow(unsafe_code)]

use std::{
    fs::File,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use tracer::{Error, ErrorKind, Result, perf_data::read::Reader};

/// What a [`Reader`] reads.
pub enum Input {
    /// `data` first, of a directory the others after it.
    Files(Vec<Mmap>),
    /// What comes through stdin.
    Pipe,
}

impl Input {
    /// Opens it.
    pub fn open(path: &Path) -> Result<Input> {
        if path == Path::new("-") {
            return Ok(Input::Pipe);
        }
        let mut files = vec![path.to_owned()];
        if path.is_dir() {
            files = vec![path.join("data")];
            files.extend((0..).map(|n| path.join(format!("data.{n}"))).take_while(|file| file.exists()));
        }
        files.iter().map(map).collect::<Result<_>>().map(Input::Files)
    }

    /// Reads it.
    pub fn reader(&self) -> Result<Reader<'_>> {
        let Input::Files(files) = self else {
            let stdin = std::io::stdin().as_fd().try_clone_to_owned();
            let stdin = stdin.map_err(|e| Error::caused(ErrorKind::Runtime, "opening stdin", e))?;
            return Reader::pipe(File::from(stdin));
        };
        let mut files = files.iter().map(|file| &file[..]);
        Reader::directory(files.next().unwrap_or_default(), files)
    }

    /// Whether it comes as it is recorded.
    pub fn is_live(&self) -> bool {
        matches!(self, Input::Pipe)
    }
}

fn map(path: &PathBuf) -> Result<Mmap> {
    let fail = |what: &str, e| Error::caused(ErrorKind::Runtime, format!("{what} {}", path.display()), e);
    let file = File::open(path).map_err(|e| {
        fail("opening", e).with_help("tracer record makes a recording, tracer script FILE reads another")
    })?;
    // SAFETY: the mapping is private and read only; that nobody cuts the file is said at the head of this one.
    unsafe { Mmap::map(&file) }.map_err(|e| fail("mapping", e))
}
