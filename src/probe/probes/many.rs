//! Many functions by few programs: those of which the same is captured share one.

use libbpf_rs::{MapCore, MapFlags};

use super::{
    Loaded, Probes,
    one::{Many, Refused},
};
use crate::{
    Error, Result,
    probe::{
        attach,
        capture::capture_shared,
        fetch::Plan,
        find::{Found, Refusal},
        hook::{Hook, How},
        keep::{Keep, kept},
        preflight,
        spec::{Provider, Spec},
    },
    schema::Schema,
};

/// Functions of which the same is captured.
struct Group {
    /// The hook of the first; those of the others differ by their symbol alone.
    hook: Hook,
    plan: Plan,
    members: Vec<(Spec, How, Schema)>,
}

impl Probes {
    /// Attaches all that a pattern matches, and says what was refused.
    pub(super) fn attach_all(
        &mut self,
        found: &Found,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Refusal>> {
        let mut refused = found.refused().to_vec();
        let (pattern, all) = (found.spec().to_string(), found.each().len());
        if matches!(found.spec().provider, Provider::Kprobe | Provider::Kretprobe) {
            let why = |error: Error| error.context(format!("{}: cannot attach", found.spec()));
            preflight::kprobes(&found.spec().target).map_err(why)?;
        }
        if found.shares_programs() {
            let mut done = 0;
            for group in groups(found, self.keep.as_ref(), &mut refused)? {
                let size = group.members.len();
                let mut step = |within: usize| progress(done + within, all);
                self.attach_group(group, found, &pattern, &mut refused, &mut step)?;
                done += size;
            }
            return Ok(refused);
        }
        for (i, spec) in found.each().iter().enumerate() {
            progress(i, all);
            self.attach_each(spec, &pattern, &mut refused);
        }
        Ok(refused)
    }

    fn attach_each(&mut self, spec: &Spec, pattern: &str, refused: &mut Vec<Refusal>) {
        if let Err(error) = self.attach_one(spec, Some(pattern)) {
            let text = error.to_string();
            let why = text.split_once(": cannot attach: ").map_or(&*text, |(_, why)| why);
            refused.push(Refusal::new(&spec.target, why));
        }
    }

    fn attach_group(
        &mut self,
        mut group: Group,
        found: &Found,
        pattern: &str,
        refused: &mut Vec<Refusal>,
        step: &mut dyn FnMut(usize),
    ) -> Result<()> {
        let mut passed_over = Vec::new();
        let retprobe = matches!(group.hook.how, How::Kretprobe { .. } | How::Uretprobe { .. });
        for many in ways(&group, retprobe) {
            let done = self.load(&group.hook, &group.plan, many).and_then(|mut loaded| {
                let schemas = match many {
                    Many::Multi => attach_at_once(&mut loaded, &mut group, found, retprobe)?,
                    _ => attach_in_turn(&mut loaded, &mut group, many, found, refused, step),
                };
                Ok((loaded, schemas))
            });
            match done {
                Ok((loaded, mut schemas)) => {
                    for i in 0..schemas.len() {
                        let name = self.unused_name_beside(schemas[i].name.clone(), &schemas[..i]);
                        schemas[i].name = name;
                    }
                    if !schemas.is_empty() {
                        let how = how(many, &group.hook.how);
                        self.keep(loaded, schemas, how, passed_over, Some(pattern));
                    }
                    return Ok(());
                }
                Err(Refused::Ours(error)) => return Err(error),
                Err(Refused::Kernels(cause)) => {
                    let cause = preflight::os_error(&cause);
                    passed_over.push(format!("no {}: {cause}", how(many, &group.hook.how)));
                }
            }
        }
        // Neither is one program told which function it runs for: each has its own.
        for (i, (spec, ..)) in group.members.iter().enumerate() {
            step(i);
            self.attach_each(spec, pattern, refused);
        }
        Ok(())
    }
}

/// The ways to try, the best first. Returns are paired by the stack, which multi-attached probes do not show.
fn ways(group: &Group, retprobe: bool) -> Vec<Many> {
    let paired = group.hook.pairs(&group.plan);
    let by_address = Many::Addresses(group.members.len());
    let kernel = group.hook.how.is_kprobe();
    let all = [(Many::Multi, !paired), (Many::Cookies, true), (by_address, kernel && !retprobe)];
    all.into_iter().filter_map(|(many, fits)| fits.then_some(many)).collect()
}

fn how(many: Many, how: &How) -> &'static str {
    match (many, how) {
        (Many::Multi, How::Kretprobe { .. }) => "kretprobe.multi",
        (Many::Multi, How::Uprobe { .. }) => "uprobe.multi",
        (Many::Multi, How::Uretprobe { .. }) => "uretprobe.multi",
        (Many::Multi, _) => "kprobe.multi",
        (Many::Addresses(_), _) => "kprobes that are told apart by address",
        (_, How::Kretprobe { .. }) => "kretprobes",
        (_, How::Uprobe { .. }) => "uprobes",
        (_, How::Uretprobe { .. }) => "uretprobes",
        _ => "kprobes",
    }
}

/// Sorts what matches by what is captured of it.
fn groups(found: &Found, keep: Option<&Keep>, refused: &mut Vec<Refusal>) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (spec, hook) in found.each().iter().zip(found.hooks()?) {
        let (plan, schema) = match kept(keep, capture_shared(spec, &hook)) {
            Ok(captured) => captured,
            Err(error) => {
                let text = error.to_string();
                let why = text.split_once(": ").map_or(&*text, |(_, why)| why);
                refused.push(Refusal::new(&spec.target, why));
                continue;
            }
        };
        let member = (spec.clone(), hook.how.clone(), schema);
        match groups.iter_mut().find(|g| g.plan == plan) {
            Some(group) => group.members.push(member),
            None => groups.push(Group { hook, plan, members: vec![member] }),
        }
    }
    Ok(groups)
}

fn attach_at_once(
    loaded: &mut Loaded,
    group: &mut Group,
    found: &Found,
    retprobe: bool,
) -> libbpf_rs::Result<Vec<Schema>> {
    let symbols: Vec<String> = group.members.iter().map(|(spec, ..)| spec.target.clone()).collect();
    let addresses: Option<Vec<u64>> = found.addresses(&symbols);
    let program = loaded.object.progs_mut().find(|p| p.name() == loaded.program);
    let how = &group.hook.how;
    let link = program
        .map(|p| attach::attach_multi(&p, how, symbols, addresses.as_deref(), retprobe))
        .transpose()?;
    loaded.links.returns.extend(link);
    Ok(group.members.drain(..).map(|(.., schema)| schema).collect())
}

/// Attaches each function by itself, as the next of those that could be.
fn attach_in_turn(
    loaded: &mut Loaded,
    group: &mut Group,
    many: Many,
    found: &Found,
    refused: &mut Vec<Refusal>,
    step: &mut dyn FnMut(usize),
) -> Vec<Schema> {
    let mut schemas = Vec::new();
    for (i, (spec, how, schema)) in group.members.drain(..).enumerate() {
        step(i);
        let nth = schemas.len();
        if let Many::Addresses(_) = many {
            let Some(address) = found.address(&spec.target) else {
                refused.push(Refusal::new(&spec.target, "the kernel's table hides its address"));
                continue;
            };
            let functions = loaded.object.maps_mut().find(|m| m.name() == "functions");
            let told = functions
                .map(|map| map.update(&address.to_ne_bytes(), &(nth as u32).to_ne_bytes(), MapFlags::ANY));
            if !matches!(told, Some(Ok(()))) {
                refused.push(Refusal::new(&spec.target, "its address could not be told to the program"));
                continue;
            }
        }
        match loaded.attach(&how, if many == Many::Cookies { nth as u64 } else { 0 }) {
            Ok((entry, back)) => {
                loaded.links.entries.extend(entry);
                loaded.links.returns.extend(back);
                schemas.push(schema);
            }
            Err(cause) => refused.push(Refusal::new(&spec.target, preflight::os_error(&cause))),
        }
    }
    schemas
}
