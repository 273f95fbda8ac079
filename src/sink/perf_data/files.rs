//! The files of a recording: the one in use, those that are finished, and how one becomes the other.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom},
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

use super::recording::Finish;
use crate::{Error, ErrorKind, Result};

/// The file in use, and what those before it are called.
pub struct Files {
    path: PathBuf,
    file: File,
    /// The number of the last finished one.
    count: usize,
    keep: Option<usize>,
}

impl Files {
    /// A new file in the place of any other, which is moved aside.
    pub fn create(path: &Path, keep: Option<usize>) -> Result<Files> {
        if path.exists() {
            let old = beside(path, "old");
            fs::rename(path, &old).map_err(|e| {
                let doing = format!("{}: cannot be moved to {}", path.display(), old.display());
                Error::caused(ErrorKind::Sink, doing, e)
            })?;
        }
        let count = last_number(path);
        Ok(Files { path: path.to_owned(), file: create(path)?, count, keep })
    }

    /// What is written to.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A new file in the place of a finished one of ours, which gets its number.
    pub fn follow(path: &Path, keep: Option<usize>) -> Result<Files> {
        let count = last_number(path) + 1;
        give_number(path, count, keep)?;
        Ok(Files { path: path.to_owned(), file: create(path)?, count, keep })
    }

    /// Puts a new file in the place of the one in use, which is returned with its new name.
    pub fn rotate(&mut self) -> Result<(File, PathBuf)> {
        self.count += 1;
        let name = give_number(&self.path, self.count, self.keep)?;
        let old = std::mem::replace(&mut self.file, create(&self.path)?);
        Ok((old, name))
    }

    /// Finishes the file in use, once nothing more is written: `whole` bytes of it are whole, where that is known.
    ///
    /// # Errors
    ///
    /// Where it cannot be finished; where it could and not all was written, so that its end is `cut`.
    pub fn finish(&self, finish: Finish, whole: Option<u64>, cut: bool) -> Result<()> {
        let path = self.path.display();
        let Some(whole) = whole else {
            let text = format!("{path}: it is not finished, as it is still being written");
            return Err(Error::new(ErrorKind::Sink, text));
        };
        let finished = self.file.try_clone().and_then(|file| {
            // Half a record may stand behind it, and what is cut makes room for the end.
            file.set_len(whole)?;
            finish.file(file)
        });
        finished.map_err(|e| {
            // Nothing but records stands behind the head of an unfinished file.
            let _ = self.file.set_len(whole);
            Error::caused(ErrorKind::Sink, format!("{path}: cannot be finished"), e)
        })?;
        match cut {
            true => Err(Error::new(
                ErrorKind::Sink,
                format!("{path}: it ends early, as not all could be written"),
            )
            .with_help("write it faster: a lower level of -z, a faster disk; or record less")),
            false => Ok(()),
        }
    }
}

impl Finish {
    /// Finishes a file to which all records have been written.
    pub fn file(self, mut file: File) -> io::Result<()> {
        let Some(layout) = self.layout else { return Ok(()) };
        let end = file.seek(SeekFrom::End(0))?;
        layout.finish(&mut file, end, &self.features)
    }
}

/// Moves a finished file aside, and takes the one away that is not kept any more.
fn give_number(path: &Path, count: usize, keep: Option<usize>) -> Result<PathBuf> {
    let name = beside(path, &count.to_string());
    // It may have been moved by somebody else: then it has its name already.
    if let Err(e) = fs::rename(path, &name)
        && e.kind() != io::ErrorKind::NotFound
    {
        let doing = format!("{}: cannot be moved to {}", path.display(), name.display());
        return Err(Error::caused(ErrorKind::Sink, doing, e));
    }
    if let Some(gone) = keep.and_then(|keep| count.checked_sub(keep)).filter(|n| *n > 0) {
        // Whoever took it away before has done what is wanted.
        let _ = fs::remove_file(beside(path, &gone.to_string()));
    }
    Ok(name)
}

fn create(path: &Path) -> Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(|e| {
        Error::caused(ErrorKind::Sink, format!("{}: cannot be opened for writing", path.display()), e)
    })
}

/// The path with one more ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// The highest number that a file beside `path` ends in: those of an earlier recording are not written over.
fn last_number(path: &Path) -> usize {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return 0 };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let entry = entry.file_name();
        entry.to_str()?.strip_prefix(&*name)?.strip_prefix('.')?.parse::<usize>().ok()
    };
    entries.filter_map(number).max().unwrap_or(0)
}
