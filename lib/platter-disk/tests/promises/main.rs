//! Tests of the page of promises, as far as a program can check them.

mod blocking;
mod dropping;
mod held;
mod lanes;
mod leaving;
mod locks;
mod process;
mod shortage;
#[path = "../slow/mod.rs"]
mod slow;
mod wakers;

use platter_block::bio::Bio;
use platter_block::fault::Error;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::future::Io;
use platter_disk::pool::{Pool, PoolBuf};

#[test]
fn what_may_cross_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Device>();
    is_sync::<Device>();
    is_send::<Io<Vec<u8>>>();
    is_send::<Bio>();
    is_send::<Error>();
    is_sync::<Error>();
    is_send::<Pool>();
    is_sync::<Pool>();
    is_send::<PoolBuf>();

    // Both impls would apply to a type that is `Send`, and then this does not compile.
    trait NotSend<A> {
        fn is_not_send() {}
    }
    impl<T> NotSend<()> for T {}
    impl<T: Send> NotSend<u8> for T {}
    <Channel as NotSend<_>>::is_not_send();
}
