//! The memory of batches that were dropped, kept to be filled again.

use std::sync::{Mutex, PoisonError};

use super::{Contents, Head};

/// Memory to be filled again, up to a number of batches.
#[derive(Debug)]
pub struct Spare {
    contents: Mutex<Vec<Contents>>,
    most: usize,
    /// Bytes that a batch is filled to.
    batch: usize,
}

impl Spare {
    /// None yet; at most `most` batches of so many bytes are kept.
    pub fn new(most: usize, batch: usize) -> Spare {
        Spare { contents: Mutex::new(Vec::with_capacity(most)), most, batch }
    }

    /// Memory for a batch.
    pub fn take(&self) -> Contents {
        let spare = self.contents.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Contents {
            bytes: Vec::with_capacity(self.batch + self.batch / 8),
            heads: Vec::with_capacity(self.batch / size_of::<Head>()),
            ..Contents::default()
        })
    }

    /// Takes a batch's memory back.
    pub fn put(&self, mut contents: Contents) {
        if contents.bytes.capacity() == 0 {
            return;
        }
        contents.bytes.clear();
        contents.heads.clear();
        contents.asides.clear();
        let mut all = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < self.most {
            all.push(contents);
        }
    }
}
