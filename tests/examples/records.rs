//! Counts the records of a recording by kind, and says how fast it read them: the reader without the command.

use std::{collections::BTreeMap, error::Error, time::Instant};

use tracer::perf_data::read::Reader;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: records FILE")?;
    let bytes = std::fs::read(&path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let mut kinds: BTreeMap<u32, u64> = BTreeMap::new();
    // Records of one kind come in rows.
    let (mut kind, mut row) = (0, 0);
    let start = Instant::now();
    let mut reader = Reader::new(&bytes)?;
    while let Some(next) = reader.next_record()? {
        if next.record.kind != kind {
            *kinds.entry(kind).or_default() += row;
            (kind, row) = (next.record.kind, 0);
        }
        row += 1;
    }
    *kinds.entry(kind).or_default() += row;
    let seconds = start.elapsed().as_secs_f64();
    for (kind, count) in kinds.iter().filter(|(_, count)| **count > 0) {
        println!("kind {kind}: {count} records");
    }
    println!("{:.2} GB/s", bytes.len() as f64 / seconds / 1e9);
    Ok(())
}
