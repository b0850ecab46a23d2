//! What a mirror may show: for each sector, the writes whose data may be there.

use std::collections::BTreeMap;
use std::ops::Range;

/// Number of a write. What it leaves in each of its sectors is [`Oracle::content`] of it.
pub(crate) type Id = u64;

#[derive(Clone, Copy)]
struct Times {
    begun: u64,
    ended: Option<u64>,
    content: u64,
}

/// A flush or read under way.
pub(crate) struct Moment {
    at: u64,
    seen: Vec<Vec<Id>>,
}

#[derive(Default)]
pub(crate) struct Oracle {
    step: u64,
    writes: BTreeMap<Id, Times>,
    /// By sector: what a read may find, what a power cut may leave, and what the last cut may have left.
    now: Vec<Vec<Id>>,
    durable: Vec<Vec<Id>>,
    cut: Vec<Vec<Id>>,
    /// All writes, by sector.
    all: Vec<Vec<Id>>,
    /// Written since that cut.
    fresh: Vec<bool>,
}

impl Oracle {
    pub(crate) fn new(sectors: usize) -> Oracle {
        let zero = Times { begun: 0, ended: Some(0), content: 0 };
        let all = vec![vec![0]; sectors];
        Oracle {
            step: 1,
            writes: BTreeMap::from([(0, zero)]),
            now: all.clone(),
            durable: all.clone(),
            cut: all.clone(),
            all,
            fresh: vec![false; sectors],
        }
    }

    /// A write of this content begins.
    pub(crate) fn begin(&mut self, sectors: Range<usize>, content: u64) -> Id {
        self.step += 1;
        let id = self.writes.len() as Id;
        self.writes.insert(id, Times { begun: self.step, ended: None, content });
        for sector in sectors {
            self.now[sector].push(id);
            self.durable[sector].push(id);
            self.all[sector].push(id);
            self.fresh[sector] = true;
        }
        id
    }

    /// It has ended.
    pub(crate) fn end(&mut self, id: Id, sectors: Range<usize>, is_ok: bool, is_durable: bool) {
        self.step += 1;
        let begun = self.writes[&id].begun;
        self.writes.get_mut(&id).unwrap().ended = Some(self.step);
        if !is_ok {
            return;
        }
        let writes = &self.writes;
        let stays = |other: &Id| *other == id || writes[other].ended.is_none_or(|ended| ended > begun);
        for sector in sectors {
            self.now[sector].retain(stays);
            if is_durable {
                self.durable[sector].retain(stays);
            }
        }
    }

    /// A flush or a read begins.
    pub(crate) fn moment(&mut self) -> Moment {
        self.step += 1;
        Moment { at: self.step, seen: self.now.clone() }
    }

    /// A flush has succeeded.
    pub(crate) fn flushed(&mut self, moment: &Moment) {
        let writes = &self.writes;
        for (sector, durable) in self.durable.iter_mut().enumerate() {
            durable.retain(|id| moment.seen[sector].contains(id) || writes[id].begun > moment.at);
        }
    }

    /// A read has succeeded.
    pub(crate) fn read(&mut self, moment: &Moment, sectors: Range<usize>, data: &[u8]) -> Result<(), String> {
        for (sector, bytes) in sectors.zip(data.chunks_exact(512)) {
            let content = self.uniform(sector, bytes)?;
            let writes = &self.writes;
            let fits = |id: &&Id| writes[id].content == content;
            let later = |id: &&Id| writes[id].begun > moment.at;
            let may: Vec<Id> =
                moment.seen[sector].iter().chain(self.all[sector].iter().filter(later)).copied().collect();
            if !may.iter().any(|id| fits(&id)) {
                return Err(format!("sector {sector} is {content}, and may be {}", self.list(&may)));
            }
            // From now on it stays so, if nothing was changing it.
            let is_still = self.now[sector].iter().all(|id| {
                let times = writes[id];
                times.begun < moment.at && times.ended.is_some_and(|ended| ended < moment.at)
            });
            if is_still {
                self.now[sector].retain(|id| writes[id].content == content);
            }
        }
        Ok(())
    }

    fn uniform(&self, sector: usize, bytes: &[u8]) -> Result<u64, String> {
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        match words.iter().all(|word| *word == words[0]) {
            true => Ok(words[0]),
            false => Err(format!("sector {sector} is torn: {words:?}")),
        }
    }

    fn list(&self, ids: &[Id]) -> String {
        let contents: Vec<String> =
            ids.iter().map(|id| format!("{} (write {id})", self.writes[id].content)).collect();
        contents.join(", ")
    }

    /// What is on a medium, while nothing is under way.
    pub(crate) fn check(&self, data: &[u8]) -> Result<(), String> {
        for (sector, bytes) in data.chunks_exact(512).enumerate() {
            let content = self.uniform(sector, bytes)?;
            if !self.now[sector].iter().any(|id| self.writes[id].content == content) {
                let may = self.list(&self.now[sector]);
                return Err(format!("sector {sector} is {content} on the medium, and may be {may}"));
            }
        }
        Ok(())
    }

    /// Power was cut.
    pub(crate) fn cut(&mut self) {
        self.step += 1;
        let step = self.step;
        self.writes.values_mut().for_each(|times| times.ended = times.ended.or(Some(step)));
        self.now = self.durable.clone();
        self.cut = self.durable.clone();
        self.fresh.fill(false);
    }

    /// The member whose contents counted after the cut is lost before the others were made the same.
    pub(crate) fn lost_first(&mut self) {
        for sector in (0..self.now.len()).filter(|sector| !self.fresh[*sector]) {
            self.now[sector].clone_from(&self.cut[sector]);
            self.durable[sector].clone_from(&self.cut[sector]);
        }
    }
}
