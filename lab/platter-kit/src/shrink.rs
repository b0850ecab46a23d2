//! Shrinks a failure: fewer I/Os before the cut, fewer lost sectors, and the same kind of error.

use super::trial::{Cut, Trial};
use super::{Failure, Found, Kit, Plan};
use platter_sim::power::{Lost, Survivors};

/// A cut that is repeated with fewer I/Os and losses.
struct Search<'a, T> {
    trial: &'a T,
    left: u64,
    /// The kind of the failure that is shrunk.
    kind: String,
}

/// What an error says apart from its numbers and quotations: two with the same are of one kind. Only the first line counts;
/// what a panic adds below it are values.
fn kind(wrong: &str) -> String {
    let mut kind = String::new();
    let mut rest = wrong.lines().next().unwrap_or_default();
    while let Some(c) = rest.chars().next() {
        let quoted = ['"', '`'].contains(&c).then(|| rest[1..].find(c)).flatten();
        let number = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (what, len) = match quoted {
            Some(end) => ("#", end + 2),
            // Hexadecimal ones too.
            None if c.is_ascii_digit() => ("#", number),
            None => (&rest[..c.len_utf8()], c.len_utf8()),
        };
        // A list of numbers is one of them.
        if what == "#" && kind.ends_with("#, ") {
            kind.truncate(kind.len() - 2);
        } else {
            kind.push_str(what);
        }
        rest = &rest[len..];
    }
    kind
}

/// The lost sectors of a plan: those of the first cut or of the second one.
type Part = fn(&mut Plan) -> Option<&mut Lost>;

impl<T: Fn(&Cut) -> Result<Trial, String>> Search<'_, T> {
    /// The error after this cut, if it is of the same kind, and the plan that repeats it.
    fn fails(&mut self, cut: &Cut) -> Option<(Plan, String)> {
        self.left = self.left.checked_sub(1)?;
        let trial = (self.trial)(cut).ok()?;
        let plan = trial.plan(cut);
        trial.wrong.filter(|wrong| kind(wrong) == self.kind).map(|wrong| (plan, wrong))
    }

    /// The plan without `step` lost sectors in a row, if that still fails.
    fn without_some(&mut self, plan: &Plan, part: Part, step: usize) -> Option<(Plan, String)> {
        let mut smaller = plan.clone();
        let all: Vec<_> = part(&mut smaller)?.iter().collect();
        for first in (0..all.len()).step_by(step) {
            let rest = all.iter().enumerate().filter(|(i, _)| !(first..first + step).contains(i));
            let lost: Lost = rest.map(|(_, sector)| *sector).collect();
            part(&mut smaller)?.clone_from(&lost);
            if let Some((_, wrong)) = self.fails(&Cut::of(&smaller)) {
                return Some((smaller, wrong));
            }
        }
        None
    }
}

impl<D> Kit<D> {
    /// The smallest plan that can be found from one that fails, and fails in the same way.
    pub(super) fn shrink<T: Fn(&Cut) -> Result<Trial, String>>(
        &self,
        mut plan: Plan,
        mut wrong: String,
        cuts: u64,
        trial: &T,
    ) -> Failure {
        let mut search = Search { trial, left: self.shrink_tries, kind: kind(&wrong) };
        let first = Box::new(Found { plan: plan.clone(), wrong: wrong.clone() });
        if plan.recovery.is_some() {
            let once = Plan { recovery: None, ..plan.clone() };
            if let Some((_, what)) = search.fails(&Cut::of(&once)) {
                (plan, wrong) = (once, what);
            }
        }
        if let Some((earlier, what)) = self.earlier(&plan, &mut search) {
            (plan, wrong) = (earlier, what);
        }
        let parts: [Part; 2] =
            [|plan| Some(&mut plan.lost), |plan| plan.recovery.as_mut().map(|again| &mut again.lost)];
        for part in parts {
            let mut step = part(&mut plan).map_or(0, |lost| lost.iter().count()).next_power_of_two();
            while step > 0 {
                while let Some((smaller, what)) = search.without_some(&plan, part, step) {
                    (plan, wrong) = (smaller, what);
                }
                step /= 2;
            }
        }
        Failure { first, ..self.failure(plan, wrong, cuts) }
    }

    /// A cut with fewer I/Os before it that fails, the first one.
    fn earlier<T: Fn(&Cut) -> Result<Trial, String>>(
        &self,
        plan: &Plan,
        search: &mut Search<'_, T>,
    ) -> Option<(Plan, String)> {
        if plan.recovery.is_some() || search.left == 0 {
            return None;
        }
        let at = |io, survivors| Cut { io: Some(io), survivors, recovery: None };
        let places = (search.trial)(&Cut::of(plan)).ok()?.trace.changes(0);
        for io in places.into_iter().filter(|&io| io < plan.io) {
            let whole = (search.trial)(&at(io, Survivors::All)).ok()?;
            for survivors in each_write(&whole.could).into_iter().chain(self.ways(io)) {
                if let Some(found) = search.fails(&at(io, survivors)) {
                    return Some(found);
                }
            }
            if search.left == 0 {
                return None;
            }
        }
        None
    }
}

/// Writes of which all combinations are tried.
const FEW: usize = 5;

/// Writes of which each one is tried alone, at most; the latest ones.
const MANY: usize = 32;

/// Ways to lose whole writes: all combinations where there are few of them, otherwise each one alone and all but
/// each one.
pub(super) fn each_write(could: &Lost) -> Vec<Survivors> {
    let sectors: Vec<(u32, u64, u64)> = could.iter().collect();
    let mut writes: Vec<(u32, u64)> = sectors.iter().map(|&(disk, write, _)| (disk, write)).collect();
    writes.dedup();
    let losing = |is_lost: &dyn Fn(usize) -> bool| {
        let is_lost = |&(disk, write, _): &(u32, u64, u64)| {
            writes.iter().position(|&known| known == (disk, write)).is_some_and(is_lost)
        };
        Survivors::Except(sectors.iter().copied().filter(is_lost).collect())
    };
    if writes.len() <= FEW {
        return (0..1u32 << writes.len()).map(|set| losing(&|i| set >> i & 1 == 1)).collect();
    }
    let latest = writes.len() - writes.len().min(MANY)..writes.len();
    latest.flat_map(|one| [losing(&|i| i == one), losing(&|i| i != one)]).collect()
}

#[test]
fn kinds_of_errors_differ_in_more_than_numbers_and_quotations() {
    let same = [
        ("block 1 is lost", "block 17 is lost"),
        ("the key \"a\" is lost", "the key \"b c\" is lost"),
        ("key17 is lost", "key3 is lost"),
        ("contents [1, 2, 3] at 0x1f", "contents [7] at 0xffee"),
        (
            "panicked: assertion `left == right` failed\n left: 1",
            "panicked: assertion `left == right` failed\n left: [2]",
        ),
    ];
    for (a, b) in same {
        assert_eq!(kind(a), kind(b));
    }
    assert_ne!(kind("block 1 is lost"), kind("1 blocks were stored, 0 are there"));
    assert_eq!(kind("5 of \"an open quotation é"), "# of \"an open quotation é");
    assert_eq!(kind(""), "");
}
