//! Requests in two orders at once, by position and by arrival: the basis of `deadline` and `mq-deadline`.

use crate::elevator::sectors::Unsorted;
use crate::elevator::{Fifos, ListId, RequestId, RequestInfo, SectorMap};
use crate::time::Time;

/// The record of a queued request.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::elevator) struct Entry {
    pub(in crate::elevator) pos: u64,
    pub(in crate::elevator) end: u64,
    pub(in crate::elevator) arrived: Time,
    pub(in crate::elevator) expire: Time,
}

impl Entry {
    pub(in crate::elevator) fn new(info: &RequestInfo, arrived: Time, expire: Time) -> Entry {
        Entry { pos: info.pos, end: info.end(), arrived, expire }
    }
}

/// `N` lists, each sorted by position and in order of arrival.
#[derive(Clone, Debug)]
pub(in crate::elevator) struct Lists<const N: usize> {
    sorted: [SectorMap; N],
    /// What is not sorted yet: it mostly comes in batches, of which nothing leaves before all is there.
    late: [Unsorted; N],
    fifos: Fifos<Entry>,
}

#[inline]
fn id_of(list: usize) -> ListId {
    ListId::new(list as u32)
}

impl<const N: usize> Lists<N> {
    pub(in crate::elevator) fn new() -> Lists<N> {
        let (sorted, late) = ([const { SectorMap::new() }; N], [const { Unsorted::new() }; N]);
        Lists { sorted, late, fifos: Fifos::new(N) }
    }

    pub(in crate::elevator) fn reserve(&mut self, requests: usize) {
        self.fifos.reserve(requests);
        self.sorted.iter_mut().for_each(|sorted| sorted.reserve(requests));
        self.late.iter_mut().for_each(|late| late.reserve(requests));
    }

    /// The requests of a list by position.
    #[inline]
    fn sorted(&mut self, list: usize) -> &mut SectorMap {
        let (sorted, late) = (&mut self.sorted[list], &mut self.late[list]);
        if !late.is_empty() {
            sorted.insert_all(late);
        }
        sorted
    }

    #[inline]
    pub(in crate::elevator) fn len(&self) -> usize {
        self.fifos.len()
    }

    #[inline]
    pub(in crate::elevator) fn has(&self, list: usize) -> bool {
        self.fifos.len_of(id_of(list)) > 0
    }

    #[inline]
    pub(in crate::elevator) fn get(&self, id: RequestId) -> Option<&Entry> {
        self.fifos.get(id)
    }

    /// The list that a queued request is in.
    #[inline]
    pub(in crate::elevator) fn list_of(&self, id: RequestId) -> Option<usize> {
        (0..N).find(|&list| self.fifos.list_of(id) == Some(id_of(list)))
    }

    /// The request of a list that arrived first.
    #[inline]
    pub(in crate::elevator) fn oldest(&self, list: usize) -> Option<(RequestId, &Entry)> {
        self.fifos.front(id_of(list))
    }

    /// The request of a list with the lowest position.
    #[inline]
    pub(in crate::elevator) fn lowest(&mut self, list: usize) -> Option<RequestId> {
        self.sorted(list).first().map(|(_, id)| id)
    }

    /// The first request of a list at or after `pos`.
    #[inline]
    pub(in crate::elevator) fn from(&mut self, list: usize, pos: u64) -> Option<(u64, RequestId)> {
        self.sorted(list).first_at_or_after(pos)
    }

    /// The number of comparisons with which an entry of a list is found.
    pub(in crate::elevator) fn comparisons(&self, list: usize, pos: u64, id: RequestId) -> usize {
        let (mut sorted, mut late) = (self.sorted[list].clone(), self.late[list].clone());
        sorted.insert_all(&mut late);
        sorted.comparisons(pos, id)
    }

    /// Adds a request. Returns `false` and changes nothing if its slot is taken.
    #[inline]
    pub(in crate::elevator) fn insert(&mut self, list: usize, id: RequestId, entry: Entry) -> bool {
        let is_free = self.fifos.push_back(id_of(list), id, entry);
        if is_free {
            self.late[list].push(entry.pos, id);
        }
        is_free
    }

    /// Removes a request from its `list`; also returns the list's next request by position.
    #[inline]
    pub(in crate::elevator) fn remove(
        &mut self,
        list: usize,
        id: RequestId,
    ) -> Option<(Entry, Option<(u64, RequestId)>)> {
        let entry = self.fifos.remove(id)?;
        let (_, follower) = self.sorted(list).remove_then_next(entry.pos, id);
        Some((entry, follower))
    }

    /// A request has grown. Returns its list, if it is queued.
    pub(in crate::elevator) fn grow(&mut self, id: RequestId, new: &RequestInfo) -> Option<usize> {
        let list = self.list_of(id)?;
        let entry = self.fifos.get_mut(id)?;
        entry.end = new.end();
        let old = core::mem::replace(&mut entry.pos, new.pos);
        if old != new.pos {
            let sorted = self.sorted(list);
            sorted.remove(old, id);
            sorted.insert(new.pos, id);
        }
        Some(list)
    }

    /// `survivor` absorbs `absorbed` and inherits the age of the older of the two. Returns the list of the
    /// absorbed request, and the request that followed it by position.
    pub(in crate::elevator) fn absorb(
        &mut self,
        survivor: RequestId,
        absorbed: RequestId,
    ) -> Option<(usize, Option<(u64, RequestId)>)> {
        let list = self.list_of(absorbed).filter(|_| survivor != absorbed)?;
        let &Entry { pos, expire, arrived, .. } = self.fifos.get(absorbed)?;
        let (_, follower) = self.sorted(list).remove_then_next(pos, absorbed);
        if self.list_of(survivor) == Some(list)
            && let Some(entry) = self.fifos.get_mut(survivor)
            && expire < entry.expire
        {
            entry.expire = expire;
            entry.arrived = entry.arrived.min(arrived);
            self.fifos.take_place(survivor, absorbed);
        }
        self.fifos.remove(absorbed);
        Some((list, follower))
    }
}
