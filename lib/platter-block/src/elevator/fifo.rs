//! First-in-first-out lists of requests from which any request can be removed in constant time.

use super::RequestId;
use alloc::vec::Vec;

/// End of a list; also the list of a slot that is in none.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    prev: u32,
    next: u32,
    list: u32,
    generation: u32,
    value: T,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    len: u32,
}

/// Identifies a list of a [`Fifos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListId(u32);

impl ListId {
    /// The list that the `number`-th call of [`Fifos::add_list`] made, counted from 0.
    #[inline]
    pub const fn new(number: u32) -> ListId {
        ListId(number)
    }

    /// The number given to [`ListId::new`].
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A set of FIFO lists over one array of slots. A slot holds at most one request, in one of the lists, with a
/// value that the elevator chooses.
///
/// A request is found by its index and checked by its generation, so every call returns `None` or `false` for
/// an id that is not queued (any more).
#[derive(Clone, Debug)]
pub struct Fifos<T> {
    nodes: Vec<Node<T>>,
    lists: Vec<Ends>,
    len: usize,
}

impl<T> Default for Fifos<T> {
    fn default() -> Self {
        Fifos { nodes: Vec::new(), lists: Vec::new(), len: 0 }
    }
}

impl<T: Copy + Default> Fifos<T> {
    /// A set of `lists` empty lists.
    pub fn new(lists: usize) -> Fifos<T> {
        let mut fifos = Fifos::default();
        (0..lists).for_each(|_| {
            fifos.add_list();
        });
        fifos
    }

    /// Adds an empty list.
    pub fn add_list(&mut self) -> ListId {
        self.lists.push(Ends { head: NONE, tail: NONE, len: 0 });
        ListId(self.lists.len() as u32 - 1)
    }

    /// Makes room for requests with an index below `places`; larger indices make the array grow when they are
    /// used.
    pub fn reserve(&mut self, places: usize) {
        if places > self.nodes.len() {
            let node = Node { prev: NONE, next: NONE, list: NONE, generation: 0, value: T::default() };
            self.nodes.resize(places, node);
        }
    }

    /// Number of requests in all lists.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether all lists are empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of requests in a list.
    #[inline]
    pub fn len_of(&self, list: ListId) -> usize {
        self.lists.get(list.0 as usize).map_or(0, |ends| ends.len as usize)
    }

    /// Adds a request at the end of a list. Returns `false` and changes nothing if its slot is taken or the
    /// list does not exist.
    #[inline]
    pub fn push_back(&mut self, list: ListId, id: RequestId, value: T) -> bool {
        self.link(list, None, id, value)
    }

    /// Inserts a request into the list of `next`, right before it. Returns `false` and changes nothing if its
    /// slot is taken or `next` is in no list.
    pub fn insert_before(&mut self, next: RequestId, id: RequestId, value: T) -> bool {
        self.list_of(next).is_some_and(|list| self.link(list, Some(next), id, value))
    }

    /// Inserts a request before `next`, which is in the list, or at the end.
    #[inline(always)]
    fn link(&mut self, list: ListId, next: Option<RequestId>, id: RequestId, value: T) -> bool {
        if id.index as usize >= self.nodes.len() && !self.make_room(id.index) {
            return false;
        }
        let Some(ends) = self.lists.get_mut(list.0 as usize) else { return false };
        let next = next.map_or(NONE, |next| next.index);
        let prev = match next {
            NONE => ends.tail,
            next => self.nodes.get(next as usize).map_or(ends.tail, |behind| behind.prev),
        };
        let node = &mut self.nodes[id.index as usize];
        if node.list != NONE {
            return false;
        }
        *node = Node { prev, next, list: list.0, generation: id.generation, value };
        ends.len += 1;
        self.len += 1;
        match self.nodes.get_mut(prev as usize) {
            Some(before) => before.next = id.index,
            None => ends.head = id.index,
        }
        match self.nodes.get_mut(next as usize) {
            Some(behind) => behind.prev = id.index,
            None => ends.tail = id.index,
        }
        true
    }

    /// Makes room for a request with this index; `false`: no request has it.
    #[cold]
    fn make_room(&mut self, index: u32) -> bool {
        if index == NONE {
            return false;
        }
        self.reserve(index as usize + 1);
        true
    }

    /// The value of a request.
    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&T> {
        self.node(id).map(|node| &node.value)
    }

    /// The value of a request.
    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut T> {
        let node = self.nodes.get_mut(id.index as usize)?;
        (node.list != NONE && node.generation == id.generation).then_some(&mut node.value)
    }

    /// The list that a request is in.
    #[inline]
    pub fn list_of(&self, id: RequestId) -> Option<ListId> {
        self.node(id).map(|node| ListId(node.list))
    }

    /// The request in a slot, if one is queued there.
    #[inline]
    pub fn id_at(&self, index: u32) -> Option<RequestId> {
        let node = self.nodes.get(index as usize).filter(|node| node.list != NONE)?;
        Some(RequestId { index, generation: node.generation })
    }

    /// The first request of a list.
    #[inline]
    pub fn front(&self, list: ListId) -> Option<(RequestId, &T)> {
        self.at(self.lists.get(list.0 as usize)?.head)
    }

    /// The last request of a list.
    #[inline]
    pub fn back(&self, list: ListId) -> Option<(RequestId, &T)> {
        self.at(self.lists.get(list.0 as usize)?.tail)
    }

    /// The request after `id` in its list.
    #[inline]
    pub fn after(&self, id: RequestId) -> Option<(RequestId, &T)> {
        self.at(self.node(id)?.next)
    }

    /// The requests of a list, oldest first.
    pub fn iter(&self, list: ListId) -> impl Iterator<Item = (RequestId, &T)> + '_ {
        core::iter::successors(self.front(list), |&(id, _)| self.after(id))
    }

    /// Takes the first request out of a list.
    #[inline]
    pub fn pop_front(&mut self, list: ListId) -> Option<(RequestId, T)> {
        let (id, _) = self.front(list)?;
        self.remove(id).map(|value| (id, value))
    }

    /// Removes a request from the list that it is in.
    #[inline]
    pub fn remove(&mut self, id: RequestId) -> Option<T> {
        let &Node { prev, next, list, value, .. } = self.node(id)?;
        self.nodes[id.index as usize].list = NONE;
        let ends = &mut self.lists[list as usize];
        ends.len -= 1;
        self.len -= 1;
        match self.nodes.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => ends.head = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(behind) => behind.prev = prev,
            None => ends.tail = prev,
        }
        Some(value)
    }

    /// Moves a queued request, with its value, to the position of another request, which is removed. Returns
    /// `false` and changes nothing if either is not queued or both are the same.
    pub fn take_place(&mut self, mover: RequestId, leaver: RequestId) -> bool {
        if mover == leaver || self.node(leaver).is_none() {
            return false;
        }
        let Some(value) = self.remove(mover) else { return false };
        let &Node { prev, next, list, .. } = &self.nodes[leaver.index as usize];
        self.nodes[leaver.index as usize].list = NONE;
        self.nodes[mover.index as usize] = Node { prev, next, list, generation: mover.generation, value };
        match self.nodes.get_mut(prev as usize) {
            Some(before) => before.next = mover.index,
            None => self.lists[list as usize].head = mover.index,
        }
        match self.nodes.get_mut(next as usize) {
            Some(behind) => behind.prev = mover.index,
            None => self.lists[list as usize].tail = mover.index,
        }
        true
    }

    #[inline]
    fn node(&self, id: RequestId) -> Option<&Node<T>> {
        let node = self.nodes.get(id.index as usize)?;
        (node.list != NONE && node.generation == id.generation).then_some(node)
    }

    #[inline]
    fn at(&self, index: u32) -> Option<(RequestId, &T)> {
        let node = self.nodes.get(index as usize)?;
        Some((RequestId { index, generation: node.generation }, &node.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u32, u32),
        Before(u32, u32),
        Pop(u32),
        Remove(u32),
        TakePlace(u32, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..2u32, 0..12u32).prop_map(|(list, index)| Step::Push(list, index)),
            2 => (0..12u32, 0..12u32).prop_map(|(a, b)| Step::Before(a, b)),
            1 => (0..2u32).prop_map(Step::Pop),
            2 => (0..12u32).prop_map(Step::Remove),
            2 => (0..12u32, 0..12u32).prop_map(|(a, b)| Step::TakePlace(a, b)),
        ]
    }

    fn id(index: u32) -> RequestId {
        RequestId { index, generation: index + 100 }
    }

    /// The same lists in a simple implementation.
    struct Model([VecDeque<u32>; 2]);

    impl Model {
        fn find(&self, index: u32) -> Option<(usize, usize)> {
            (0..2).find_map(|list| Some((list, self.0[list].iter().position(|&i| i == index)?)))
        }

        fn remove(&mut self, index: u32) -> bool {
            self.find(index).is_some_and(|(list, at)| self.0[list].remove(at).is_some())
        }

        fn insert_before(&mut self, next: u32, index: u32) -> bool {
            let Some((list, at)) = self.find(next).filter(|_| self.find(index).is_none()) else {
                return false;
            };
            self.0[list].insert(at, index);
            true
        }

        fn take_place(&mut self, mover: u32, leaver: u32) -> bool {
            if mover == leaver || self.find(leaver).is_none() || !self.remove(mover) {
                return false;
            }
            let Some((list, at)) = self.find(leaver) else { return false };
            self.0[list][at] = mover;
            true
        }
    }

    proptest! {
        #[test]
        fn does_what_two_queues_do(steps in prop::collection::vec(step(), 0..200)) {
            let mut fifos: Fifos<u32> = Fifos::new(2);
            let mut model = Model([VecDeque::new(), VecDeque::new()]);
            for step in steps {
                match step {
                    Step::Push(list, index) => {
                        let fits = model.find(index).is_none();
                        assert_eq!(fifos.push_back(ListId::new(list), id(index), index), fits);
                        if fits {
                            model.0[list as usize].push_back(index);
                        }
                    }
                    Step::Before(next, index) => {
                        let put = fifos.insert_before(id(next), id(index), index);
                        assert_eq!(put, model.insert_before(next, index));
                    }
                    Step::Pop(list) => {
                        let first = model.0[list as usize].pop_front();
                        assert_eq!(fifos.pop_front(ListId::new(list)), first.map(|i| (id(i), i)));
                    }
                    Step::Remove(index) => {
                        assert_eq!(fifos.remove(id(index)), model.remove(index).then_some(index));
                    }
                    Step::TakePlace(mover, leaver) => {
                        let moved = fifos.take_place(id(mover), id(leaver));
                        assert_eq!(moved, model.take_place(mover, leaver));
                    }
                }
                for list in 0..2 {
                    let order = fifos.iter(ListId::new(list)).map(|(id, _)| id.index);
                    assert!(order.eq(model.0[list as usize].iter().copied()));
                    let back = fifos.back(ListId::new(list)).map(|(id, _)| id.index);
                    assert_eq!(back, model.0[list as usize].back().copied());
                    assert_eq!(fifos.len_of(ListId::new(list)), model.0[list as usize].len());
                }
                assert_eq!(fifos.len(), model.0[0].len() + model.0[1].len());
                assert_eq!(fifos.is_empty(), model.0.iter().all(VecDeque::is_empty));
            }
        }
    }

    #[test]
    fn a_stale_or_unknown_id_is_not_there() {
        let mut fifos: Fifos<()> = Fifos::new(1);
        let list = ListId::new(0);
        assert!(fifos.push_back(list, id(3), ()));
        let stale = RequestId { index: 3, generation: 0 };
        assert_eq!((fifos.get(stale), fifos.list_of(stale)), (None, None));
        assert_eq!(fifos.remove(stale), None);
        assert_eq!((fifos.remove(id(2)), fifos.remove(id(99))), (None, None));
        assert!(!fifos.push_back(list, stale, ()), "the place is taken");
        assert!(!fifos.push_back(ListId::new(1), id(4), ()), "there is no such list");
        assert_eq!((fifos.list_of(id(3)), fifos.len()), (Some(list), 1));
    }
}
