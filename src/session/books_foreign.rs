//! The identities of maps of programs that are not ours: what can be checked without accounts, and what cannot.

use std::collections::BTreeSet;

use crate::ledger::{FeedCpu, FeedReport, Identity, Tail};

/// Adds to the identities of our own programs, of which there may be none, what is known of others'.
pub fn check(all: &mut Vec<Identity>, feeds: &[FeedReport], own: bool) {
    if feeds.is_empty() {
        return;
    }
    if !own {
        // There are no rings of ours that they could speak of.
        all.retain(|identity| !matches!(identity.name, "lost" | "records" | "runs" | "pairs"));
    }
    for identity in all.iter_mut() {
        match identity.name {
            "accounts" => unknown(
                identity,
                feeds,
                "its programs keep no accounts: what an output was refused, but for want of room, nobody counts",
            ),
            "sequence" => unknown(identity, feeds, "its programs do not number what they emit"),
            "tail" => tail(identity, feeds),
            "corruption" => corruption(identity, feeds),
            _ => {}
        }
    }
    if arrays(feeds).next().is_some() {
        all.push(records(feeds));
        all.push(lost(feeds));
    }
    if let Some(ringbufs) = ringbufs(feeds) {
        all.push(ringbufs);
    }
}

/// Every ring of a perf event array, with its CPU and what it is called.
fn arrays(feeds: &[FeedReport]) -> impl Iterator<Item = (String, &FeedReport, &FeedCpu)> {
    let all = feeds.iter().flat_map(|feed| feed.cpus.iter().map(move |c| (feed, c)));
    all.filter_map(|(feed, c)| {
        let cpu = c.cpu?;
        Some((format!("'{}' of {}, cpu {cpu}", feed.map, feed.spec), feed, c))
    })
}

fn unknown(identity: &mut Identity, feeds: &[FeedReport], why: &str) {
    let specs: BTreeSet<&str> = feeds.iter().map(|f| &*f.spec).collect();
    specs.into_iter().for_each(|spec| identity.unknown(format!("{spec}: {why}")));
}

fn tail(identity: &mut Identity, feeds: &[FeedReport]) {
    for feed in feeds.iter().filter(|f| f.cpus.iter().any(|c| c.cpu.is_some())) {
        if let Tail::Derived(why) = &feed.tail {
            identity.unknown(format!("'{}' of {}: {why}", feed.map, feed.spec));
        }
    }
    for (place, ..) in arrays(feeds).filter(|(_, feed, c)| feed.tail == Tail::Proved && c.markers == 0) {
        identity.fail(format!(
            "{place}: no end marker; it was written and not found: the slot holds another ring"
        ));
    }
}

fn corruption(identity: &mut Identity, feeds: &[FeedReport]) {
    for (feed, c) in feeds.iter().flat_map(|f| f.cpus.iter().map(move |c| (f, c))) {
        if c.corruptions + c.undecoded > 0 {
            let cpu = c.cpu.map_or_else(String::new, |cpu| format!(", cpu {cpu}"));
            let FeedCpu { corruptions, corrupt_bytes, undecoded, .. } = c;
            identity.fail(format!(
                "'{}' of {}{cpu}: {corruptions} corruptions ({corrupt_bytes} bytes), {undecoded} samples that no \
                 schema fits",
                feed.map, feed.spec
            ));
        }
    }
}

fn records(feeds: &[FeedReport]) -> Identity {
    let says = "samples read = decoded + undecoded + end markers, of arrays not ours";
    let mut identity = Identity::new("foreign records", says);
    for (place, _, c) in arrays(feeds) {
        identity.check(place, c.samples.unwrap_or(0), c.decoded + c.undecoded + c.markers);
    }
    identity
}

fn lost(feeds: &[FeedReport]) -> Identity {
    let mut identity =
        Identity::new("foreign lost", "sum of LOST records = PERF_FORMAT_LOST, of arrays not ours");
    for (place, _, c) in arrays(feeds) {
        match (c.lost, c.kernel_lost) {
            (Some(told), Some(kernel)) if told < kernel && c.markers == 0 => {
                let untold = kernel - told;
                identity.unknown(format!(
                    "{place}: no LOST record tells the last {untold}, as no end marker followed"
                ));
            }
            (Some(told), Some(kernel)) => identity.check(place, told, kernel),
            _ => identity.unknown(format!("{place}: this kernel does not count what it lost")),
        }
    }
    identity
}

/// What a ringbuf does not tell.
fn ringbufs(feeds: &[FeedReport]) -> Option<Identity> {
    let mut identity = Identity::new("ringbufs", "records held = decoded, and none lost");
    for feed in feeds.iter().filter(|f| f.cpus.iter().any(|c| c.cpu.is_none())) {
        identity.unknown(format!(
            "'{}' of {}: a BPF ringbuf counts neither what it held nor what it had no room for",
            feed.map, feed.spec
        ));
    }
    (identity.holds != Some(true)).then_some(identity)
}
