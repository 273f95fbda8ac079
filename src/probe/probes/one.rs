//! A spec's probes: the best hooks that this kernel takes, loaded and attached.

use std::io;

use libbpf_rs::{OpenObject, ProgramAttachType};

use super::{Attached, Loaded, Outcome, Probes, loaded::Links};
use crate::{
    Error, ErrorKind, Result,
    probe::{
        capture::capture,
        debug,
        fetch::Plan,
        find::{Found, Refusal},
        hook::Hook,
        keep::{Keep, kept},
        object::{self, Common},
        preflight,
        resolve::resolve,
        spec::Spec,
        tracefs,
    },
    schema::Schema,
};

/// How one program tells the functions apart that it serves: `TRACER_MANY_*` of `bpf/tracer.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Many {
    /// It serves one.
    One,
    /// By cookies, all attached in one call (kprobe.multi, from 6.6 on uprobe.multi).
    Multi,
    /// By cookies, attached one by one.
    Cookies,
    /// By their addresses: so many.
    Addresses(usize),
}

impl Probes {
    /// Resolves, loads and attaches all that a spec matches: the best hooks that this kernel takes. `progress` is
    /// told how many of how many are done, where there are several.
    ///
    /// # Errors
    ///
    /// Says why no hook could be attached: the symbol is absent, the kernel has no kprobes, a right is missing. Of
    /// what a pattern matches some may be refused; that is an error only where all are.
    pub fn attach(&mut self, found: &Found, progress: &mut dyn FnMut(usize, usize)) -> Result<Outcome> {
        let first = self.attached.len();
        let refused = match found.is_pattern() {
            true => self.attach_all(found, progress)?,
            false => self.attach_one(found.spec(), None).map(|()| Vec::new())?,
        };
        self.forget_last()?;
        if self.attached.len() == first && !refused.is_empty() {
            let text = format!("{}: cannot attach: none of {} that match", found.spec(), refused.len());
            // What is said of most of them.
            let said = |one: &Refusal| refused.iter().filter(|other| other.why == one.why).count();
            let most = refused.iter().max_by_key(|one| said(one));
            let help = most.map(|one| format!("{}: {}", one.name, one.why)).unwrap_or_default();
            return Err(Error::new(ErrorKind::Attach, text).with_help(help));
        }
        Ok(Outcome { attached: first..self.attached.len(), refused })
    }

    /// Attaches a spec without wildcards.
    pub(super) fn attach_one(&mut self, spec: &Spec, pattern: Option<&str>) -> Result<()> {
        let hooks = resolve(spec)?;
        debug::forget();
        let mut passed_over = Vec::new();
        let last = hooks.len() - 1;
        for (i, hook) in hooks.iter().enumerate() {
            match self.try_hook(spec, hook) {
                Ok((loaded, schema)) => {
                    self.keep(loaded, vec![schema], &hook.how.to_string(), passed_over, pattern);
                    return Ok(());
                }
                Err(Refused::Ours(error)) => return Err(error),
                Err(Refused::Kernels(cause)) if i == last || !may_help(&hooks[i..], &cause) => {
                    return Err(preflight::explain(spec, hook, &cause));
                }
                Err(Refused::Kernels(cause)) => passed_over.push(preflight::reason(hook, &cause)),
            }
        }
        Err(Error::new(ErrorKind::Attach, format!("{spec}: this kernel has no hook for it")))
    }

    /// Takes in what is attached, with the schema of each of its probes.
    pub(super) fn keep(
        &mut self,
        loaded: Loaded,
        schemas: Vec<Schema>,
        how: &str,
        passed_over: Vec<String>,
        pattern: Option<&str>,
    ) {
        for schema in schemas {
            self.attached.push(Attached {
                schema,
                how: how.to_owned(),
                passed_over: passed_over.clone(),
                pattern: pattern.map(str::to_owned),
            });
        }
        self.loaded.push(Loaded { ids: loaded.ids.start..self.attached.len() + 1, ..loaded });
    }

    fn try_hook(&self, spec: &Spec, hook: &Hook) -> Result<(Loaded, Schema), Refused> {
        let (plan, mut schema) = kept(self.keep.as_ref(), capture(spec, hook))?;
        let mut loaded = self.load(hook, &plan, Many::One)?;
        // A tracepoint's id is read from tracefs, which may be mounted on that thread alone.
        let (entry, back) = match hook.how.needs_tracefs() {
            true => tracefs::with(|_| Ok(loaded.attach(&hook.how, 0)))?,
            false => loaded.attach(&hook.how, 0),
        }?;
        loaded.links.entries.extend(entry);
        loaded.links.returns.extend(back);
        schema.name = self.unused_name(schema.name);
        Ok((loaded, schema))
    }

    /// Loads the program of a hook for the next free ids.
    pub(super) fn load(&self, hook: &Hook, plan: &Plan, many: Many) -> Result<Loaded, Refused> {
        let id = self.attached.len() + 1;
        if id >= self.ids {
            return Err(Refused::Ours(Error::new(
                ErrorKind::Runtime,
                "more probes than the accounts were made for",
            )));
        }
        let program = hook.how.program();
        let half = hook.how.half().filter(|_| hook.pairs(plan)).map(|(name, _)| name);
        let mut open = object::open_with(program)?;
        for name in [program].into_iter().chain(half) {
            object::select(&mut open, name);
            set_trampoline(&mut open, name, hook)?;
        }
        if many == Many::Multi {
            let kind = || match hook.how.is_uprobe() {
                true => ProgramAttachType::TraceUprobeMulti,
                false => ProgramAttachType::KprobeMulti,
            };
            open.progs_mut().filter(|p| p.name() == program).for_each(|mut p| p.set_attach_type(kind()));
        }
        object::share_maps(&mut open, &self.base, &object::SHARED)?;
        match self.gather {
            1 => object::leave_out(&mut open, &[super::GATHERS])?,
            _ => object::share_maps(&mut open, &self.base, &[super::GATHERS])?,
        }
        Keep::size(self.keep.as_ref(), &mut open)?;
        object::share_maps(&mut open, &self.base, Keep::maps(self.keep.as_ref()))?;
        match many {
            Many::Addresses(entries) => object::size(&mut open, "functions", entries)?,
            _ => object::leave_out(&mut open, &["functions"])?,
        }
        if half.is_none() {
            object::leave_out(&mut open, &["pairs"])?;
        }
        object::configure(&mut open, &Common { filter: &self.filter, probes: self.ids }, id, |c| {
            hook.configure(plan, c);
            c.set_u32("gather", self.gather);
            c.set_u32("many", many.number());
        })?;
        Ok(Loaded {
            object: open.load()?,
            program,
            half,
            links: Links::default(),
            ids: id..id + 1,
            told: None,
            kprobes: hook.how.is_kprobe(),
        })
    }
}

impl Many {
    fn number(self) -> u32 {
        match self {
            Many::One => 0,
            Many::Multi | Many::Cookies => 1,
            Many::Addresses(_) => 2,
        }
    }
}

/// Why a hook did not come about.
pub enum Refused {
    /// The kernel or libbpf refused it; another hook may do.
    Kernels(libbpf_rs::Error),
    /// Something else is wrong, and no other hook will help.
    Ours(Error),
}

impl From<libbpf_rs::Error> for Refused {
    fn from(error: libbpf_rs::Error) -> Refused {
        Refused::Kernels(error)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Ours(error)
    }
}

/// Whether the next hook may do where the first was refused: reading arguments in another way helps against the
/// verifier alone.
fn may_help(hooks: &[Hook], cause: &libbpf_rs::Error) -> bool {
    match hooks {
        [this, next, ..]
            if this.how.trampoline().is_some() && this.how.trampoline() == next.how.trampoline() =>
        {
            preflight::os_error(cause).kind() == io::ErrorKind::PermissionDenied
                && preflight::os_error(cause).raw_os_error() != Some(preflight::EPERM)
        }
        _ => true,
    }
}

fn set_trampoline(open: &mut OpenObject, name: &str, hook: &Hook) -> libbpf_rs::Result<()> {
    let Some(function) = hook.how.trampoline() else { return Ok(()) };
    open.progs_mut()
        .filter(|p| p.name() == name)
        .try_for_each(|mut p| p.set_attach_target(0, Some(function.to_owned())))
}
