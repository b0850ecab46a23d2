//! The program of the README: the synchronous way and a future, on a file that it makes: `embed`

use platter::{Access, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let disk = open("file(store.img, create=64M, elevator=deadline)", Access::read_write())?;
    disk.write_at(b"any memory, any offset", 4096)?; // borrowed; bounced where it is not aligned
    disk.flush()?; // durable from here on
    let (result, block) = futures::executor::block_on(disk.read(4096, vec![0u8; 4096])); // any executor
    result?;
    println!("{} bytes read, {} bios", block.unwrap_or_default().len(), disk.counters().bios);
    Ok(())
}
