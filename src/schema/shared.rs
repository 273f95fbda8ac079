//! A record that several events share: `struct tracer_gather` of `bpf/tracer.h`.

use crate::record::Body;

/// Bytes before the first event.
const HEAD: usize = 4;
/// Bytes before each: its size, four, and its time, eight.
const BEFORE: usize = 12;

/// Whether raw bytes are those of several events. Where an event has its type, which is never 0, they have 0.
#[inline]
pub fn is_shared(raw: &Body<'_>) -> bool {
    raw.len() > HEAD && raw.u32_at(0) == Some(0)
}

/// Each event's time, CLOCK_MONOTONIC nanoseconds, and raw bytes. What does not fit is `None`, and the last.
pub fn events<'a>(raw: Body<'a>) -> impl Iterator<Item = Option<(u64, Body<'a>)>> {
    let mut at = HEAD;
    std::iter::from_fn(move || {
        if at >= raw.len() {
            return None;
        }
        let event = one(&raw, at);
        at = event.map_or(raw.len(), |(_, event)| at + BEFORE + event.len());
        Some(event)
    })
}

fn one<'a>(raw: &Body<'a>, at: usize) -> Option<(u64, Body<'a>)> {
    let size = raw.u32_at(at)? as usize;
    Some((raw.u64_at(at + 4)?, raw.range(at + BEFORE, size)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(events: &[(u64, &[u8])]) -> Vec<u8> {
        let mut raw = vec![0; HEAD];
        for (time, event) in events {
            raw.extend((event.len() as u32).to_ne_bytes());
            raw.extend(time.to_ne_bytes());
            raw.extend(*event);
        }
        raw
    }

    #[test]
    fn events_come_apart_wherever_the_record_wraps() {
        let raw = record(&[(7, &[1; 20]), (9, &[2; 52]), (u64::MAX, &[3; 4])]);
        for at in 0..=raw.len() {
            let (first, second) = raw.split_at(at);
            let body = Body::wrapped(first, second);
            assert!(is_shared(&body));
            let told: Vec<_> =
                events(body).map(|e| e.map(|(t, b)| (t, b.to_contiguous().into_owned()))).collect();
            let expected = [(7, vec![1; 20]), (9, vec![2; 52]), (u64::MAX, vec![3; 4])];
            assert_eq!(told, expected.map(Some));
        }
    }

    #[test]
    fn what_does_not_fit_ends_it() {
        let whole = record(&[(7, &[1; 20]), (9, &[2; 52])]);
        for len in 0..whole.len() {
            let told: Vec<_> = events(Body::new(&whole[..len])).collect();
            assert!(told.len() <= 2, "{len}");
            assert_eq!(
                told.iter().filter(|e| e.is_none()).count(),
                usize::from(len > HEAD && len != 36),
                "{len}"
            );
        }
        let mut huge = whole;
        huge[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(events(Body::new(&huge)).eq([None]));
        assert!(!is_shared(&Body::new(&[0; 4])), "an end marker");
    }
}
