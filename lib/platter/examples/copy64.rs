//! Copies one device or file to a new file with 64 blocks in flight: `copy64 FROM TO`

use futures::stream::{StreamExt, TryStreamExt, iter};
use platter::{Access, Device, Error, open};

const BLOCK: u64 = 256 << 10;

async fn copy_block(from: &Device, to: &Device, pos: u64) -> Result<u64, Error> {
    let len = BLOCK.min(from.size() - pos);
    let (read, buffer) = from.read(pos, vec![0u8; len as usize]).await;
    read?;
    to.write(pos, buffer.unwrap_or_default()).await.0?;
    Ok(len)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (Some(from), Some(to)) = (std::env::args().nth(1), std::env::args().nth(2)) else {
        return Err("usage: copy64 FROM TO".into());
    };
    let from = open(&from, Access::read())?;
    let to = open(&to, Access { create: Some(from.size()), ..Access::read_write() })?;
    let blocks = (0..from.size()).step_by(BLOCK as usize);
    let copies = iter(blocks).map(|pos| copy_block(&from, &to, pos)).buffer_unordered(64);
    let bytes = copies.try_fold(0, async |sum, len| Ok(sum + len));
    let bytes = futures::executor::block_on(bytes)?;
    to.flush()?;
    println!("{bytes} bytes copied");
    Ok(())
}
