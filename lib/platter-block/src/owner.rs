//! The owner of a bio's memory: any buffer type, moved into the bio without an allocation.

use crate::deferred::{self, Deferred};
use alloc::boxed::Box;
use core::any::TypeId;
use core::fmt;
use core::mem::{MaybeUninit, align_of, size_of};

/// Words stored in place; `Vec<u8>` takes three, `Bytes` and `BytesMut` four.
const WORDS: usize = 4;

type Store = [MaybeUninit<usize>; WORDS];

struct Table {
    type_id: fn() -> TypeId,
    drop: unsafe fn(&mut Store),
    /// Whether dropping the value may run code of the program.
    foreign: bool,
}

/// One value of any `Send + 'static` type, stored in place if it has at most four words.
///
/// A bio keeps its buffer here from submission to completion, so a caller that stops waiting (a dropped future, a
/// timeout) leaves the memory alive until the device is done with it.
///
/// An owner that is dropped while its thread holds a lock of the library keeps its value until that lock is released
/// ([`deferred`]), because the value's destructor is code of the program.
pub struct Owner {
    store: Store,
    table: Option<&'static Table>,
}

// SAFETY: only `Send` values are stored (bound of `Owner::new`).
unsafe impl Send for Owner {}

struct Of<T>(core::marker::PhantomData<T>);

impl<T: Send + 'static> Of<T> {
    const INLINE: bool = size_of::<T>() <= size_of::<Store>() && align_of::<T>() <= align_of::<Store>();

    const FOREIGN: &'static Table = &Table { type_id: TypeId::of::<T>, drop: Self::drop_in, foreign: true };
    const INTERNAL: &'static Table = &Table { type_id: TypeId::of::<T>, drop: Self::drop_in, foreign: false };

    fn write(store: &mut Store, value: T) {
        if Self::INLINE {
            // SAFETY: `INLINE` says that the store is large and aligned enough for a `T`.
            unsafe { store.as_mut_ptr().cast::<T>().write(value) }
        } else {
            store[0] = MaybeUninit::new(Box::into_raw(Box::new(value)).expose_provenance());
        }
    }

    /// # Safety
    /// The store holds a `T` written by `write`; this call moves it out.
    unsafe fn read(store: &mut Store) -> T {
        if Self::INLINE {
            // SAFETY: by this function's contract.
            unsafe { store.as_ptr().cast::<T>().read() }
        } else {
            // SAFETY: `write` left the exposed address of a leaked box of `T` in the first word.
            unsafe { *Box::from_raw(core::ptr::with_exposed_provenance_mut::<T>(store[0].assume_init())) }
        }
    }

    /// # Safety
    /// The store holds a `T` written by `write`.
    unsafe fn borrow(store: &Store) -> &T {
        if Self::INLINE {
            // SAFETY: by this function's contract.
            unsafe { &*store.as_ptr().cast::<T>() }
        } else {
            // SAFETY: `write` left the exposed address of a leaked box of `T` in the first word.
            unsafe { &*core::ptr::with_exposed_provenance::<T>(store[0].assume_init()) }
        }
    }

    /// # Safety
    /// As for `read`.
    unsafe fn drop_in(store: &mut Store) {
        // SAFETY: by this function's contract.
        drop(unsafe { Self::read(store) });
    }
}

impl Owner {
    /// No value.
    pub const NONE: Owner = Owner { store: [MaybeUninit::uninit(); WORDS], table: None };

    /// Stores `value`, in a box if it has more than four words.
    #[inline]
    pub fn new<T: Send + 'static>(value: T) -> Owner {
        let mut owner = Owner { store: [MaybeUninit::uninit(); WORDS], table: Some(Of::<T>::FOREIGN) };
        Of::<T>::write(&mut owner.store, value);
        owner
    }

    /// Stores a value that belongs to the library. Its destructor runs no code of the program (except by dropping
    /// owners inside it), so it may be dropped with locks held, and is dropped at once.
    pub(crate) fn internal<T: Send + 'static>(value: T) -> Owner {
        let mut owner = Owner { store: [MaybeUninit::uninit(); WORDS], table: Some(Of::<T>::INTERNAL) };
        Of::<T>::write(&mut owner.store, value);
        owner
    }

    /// Whether there is no value.
    pub fn is_none(&self) -> bool {
        self.table.is_none()
    }

    /// Returns the value if it is a `T`; otherwise the owner is unchanged.
    pub fn take<T: Send + 'static>(&mut self) -> Option<T> {
        let table = self.table?;
        if (table.type_id)() != TypeId::of::<T>() {
            return None;
        }
        self.table = None;
        // SAFETY: the table names the stored type, and that type is `T`; without the table the store is not read
        // again.
        Some(unsafe { Of::<T>::read(&mut self.store) })
    }

    /// The value if it is a `T`.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        if (self.table?.type_id)() != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: the table names the stored type, and that type is `T`, which stays here as long as the borrow.
        Some(unsafe { Of::<T>::borrow(&self.store) })
    }

    /// Drops the value, if any.
    #[inline]
    pub fn clear(&mut self) {
        if self.table.is_some() {
            *self = Owner::NONE;
        }
    }
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::NONE
    }
}

impl Owner {
    /// Drops the value even if it is the program's: for callers that hold no lock.
    pub(crate) fn drop_now(mut self) {
        debug_assert!(!deferred::is_held(), "a buffer of the program is dropped with a lock held");
        self.drop_value();
    }

    /// Whether there is a value whose destructor may run code of the program.
    pub(crate) fn is_foreign(&self) -> bool {
        self.table.is_some_and(|table| table.foreign)
    }

    fn drop_value(&mut self) {
        if let Some(table) = self.table.take() {
            // SAFETY: the table belongs to the stored type, and it has been taken out, so this runs once.
            unsafe { (table.drop)(&mut self.store) }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.is_foreign() && deferred::is_held() {
            let owner = Owner { store: self.store, table: self.table.take() };
            return deferred::later(Deferred::Drop(owner));
        }
        self.drop_value();
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "no owner" } else { "owner" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn small_and_large_values_come_back() {
        let mut small = Owner::new(vec![1u8, 2, 3]);
        assert!(small.take::<u64>().is_none() && small.get::<u64>().is_none());
        assert_eq!(small.get::<Vec<u8>>(), Some(&vec![1, 2, 3]));
        assert_eq!(small.take::<Vec<u8>>(), Some(vec![1, 2, 3]));
        assert!(small.is_none());
        let mut large = Owner::new([7u64; 9]);
        assert_eq!(large.get::<[u64; 9]>(), Some(&[7; 9]));
        assert_eq!(large.take::<[u64; 9]>(), Some([7; 9]));
    }

    #[test]
    fn what_is_not_taken_is_dropped_once() {
        let count = Arc::new(());
        drop(Owner::new(Arc::clone(&count)));
        let mut owner = Owner::new((Arc::clone(&count), [0u64; 8]));
        assert_eq!(Arc::strong_count(&count), 2);
        owner.clear();
        owner.clear();
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[repr(align(64))]
    #[derive(Debug, PartialEq)]
    struct Wide(u8);

    #[test]
    fn an_over_aligned_value_is_boxed() {
        assert_eq!(Owner::new(Wide(5)).take::<Wide>(), Some(Wide(5)));
    }
}
