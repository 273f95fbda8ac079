//! Sizes, CPU lists, wake rules and declared largest samples: what is refused, and with which arithmetic.

use std::time::Duration;

use tracer::{
    ErrorKind,
    record::{SampleFormat, sample_type::*},
    ring::{Options, Set, Wake, cpus, size},
};

use crate::support::raw_only;

/// Whether a set of no rings can be had: all that is checked without the kernel.
fn check(options: &Options) -> Result<(), String> {
    Set::of_mocks(options, vec![]).map(drop).map_err(|e| {
        assert_eq!(e.kind(), ErrorKind::Usage);
        format!("{e}; {}", e.help().expect("a way out"))
    })
}

#[track_caller]
fn refused(options: &Options, words: &[&str]) {
    let error = check(options).expect_err("refused");
    words.iter().for_each(|word| assert!(error.contains(word), "{error:?} lacks {word:?}"));
}

#[test]
fn sizes_are_rounded_to_a_power_of_two_of_any_page() {
    for page in [4096, 16_384, 65_536] {
        let round = |bytes| size::round_to(bytes, page).map_err(|e| e.to_string());
        assert_eq!(round(1), Ok(page));
        assert_eq!(round(page), Ok(page));
        assert_eq!(round(page + 1), Ok(2 * page));
        assert_eq!(round(3 * page), Ok(4 * page));
        assert_eq!(round(2 * page + 1), Ok(4 * page));
        assert_eq!(round(1 << 30), Ok(1 << 30));
        for bytes in [0, (1 << 30) + 1, usize::MAX / 2 + 2, usize::MAX] {
            assert!(round(bytes).unwrap_err().contains(&bytes.to_string()));
        }
    }
    assert_eq!(size::round_to(8193, 4096).unwrap(), 16_384);
    refused(&Options { size: 0, ..raw_only() }, &["0 bytes", "smallest ring is one page"]);
    refused(&Options { size: usize::MAX, ..raw_only() }, &["largest ring is 1 GiB"]);
}

#[test]
fn cpu_lists() {
    let parse = |list| cpus::parse(list).map_err(|e| e.to_string());
    assert_eq!(parse("0-3,7,16-18\n"), Ok(vec![0, 1, 2, 3, 7, 16, 17, 18]));
    assert_eq!(parse("5"), Ok(vec![5]));
    assert_eq!(parse(""), Ok(vec![]));
    assert_eq!(parse(" 2 , 0-1 "), Ok(vec![0, 1, 2]));
    assert_eq!(parse("3,1,3,0-1"), Ok(vec![0, 1, 3]));
    for bad in ["a", "1,", ",", "-1", "1-", "3-1", "+1", "1--2", "0x1", "0-99999999", "4294967296", "1 2"] {
        let error = parse(bad).unwrap_err();
        assert!(error.contains(bad), "{error}");
    }
    assert!(!cpus::online().unwrap().is_empty());
    assert!(cpus::possible().unwrap().len() >= cpus::online().unwrap().len());
}

#[test]
fn wake_rules_that_could_stall_are_refused() {
    let with = |wake| Options { size: 8192, wake, ..raw_only() };
    assert_eq!(Options::default().wake.sweep(), Duration::from_millis(100));
    assert!(check(&with(Wake::Latency(Duration::from_micros(1)))).is_ok());
    refused(&with(Wake::Latency(Duration::ZERO)), &["latency of 0"]);
    refused(&with(Wake::Records(0)), &["every 0 records"]);
    refused(&with(Wake::Bytes(0)), &["every 0 bytes"]);
    assert!(check(&with(Wake::Records(u32::MAX))).is_ok(), "it wakes at half of the ring");
    // 8192 - 8 - 16 (a record) - 24 (LOST)
    assert!(check(&with(Wake::Bytes(8144))).is_ok());
    refused(&with(Wake::Bytes(8145)), &["8145", "8192 - 8 - 16", "24 (a LOST record)"]);
    refused(&with(Wake::Bytes(u32::MAX)), &["8 KiB"]);
    let declared = |max_raw, wake| Options { max_raw, ..with(wake) };
    assert!(check(&declared(1000, Wake::Bytes(7144))).is_ok()); // a record of 1016
    refused(&declared(1000, Wake::Bytes(7145)), &["1016"]);
    assert!(check(&declared(8148, Wake::Bytes(4096))).is_ok(), "half of the ring is always good");
}

#[test]
fn a_largest_sample_that_never_fits_is_refused() {
    let with = |size, max_raw, sample_type| Options { size, max_raw, sample_type, ..raw_only() };
    assert!(check(&with(8192, 8192 - 44, RAW)).is_ok());
    refused(&with(8192, 8192 - 43, RAW), &["8149 raw bytes", "at most 8184 unread", "8148", "16 KiB"]);
    assert!(check(&with(1 << 20, 65_516, RAW)).is_ok());
    refused(&with(1 << 20, 65_517, RAW), &["65517", "16 bits", "65516"]);
    // TID, TIME and CPU take 24 bytes of the sample and 24 of the LOST record.
    assert!(check(&with(8192, 8192 - 44 - 48, RAW | TID | TIME | CPU)).is_ok());
    refused(&with(8192, 8192 - 44 - 47, RAW | TID | TIME | CPU), &["8100"]);
    refused(&with(8192, usize::MAX, RAW), &["65516"]);
    refused(&with(8192, 0, RAW | READ), &["not supported"]);
    for size in [1 << 12, 1 << 16, 1 << 17, 1 << 30] {
        for sample_type in [RAW, RAW | TIME, RAW | IDENTIFIER | IP | TID | CPU] {
            let format = SampleFormat { sample_type, sample_id_all: true };
            let n = size::largest_raw(size, &format);
            let fits = |n| {
                let record = format.sample_size(n);
                record + format.lost_size() <= size - 8 && record <= 65_535
            };
            assert!(fits(n) && !fits(n + 1), "{size} {sample_type:#x} {n}");
        }
    }
}
