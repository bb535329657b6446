//! The swap that a pool's settings ask for.

use crate::budget::account::compressed_limit;
use crate::budget::counts::Counts;
use crate::config::{PoolConfig, SwapFile as ConfiguredFile};
use crate::error::{Error, Result};
use crate::store::room::Room;
use crate::store::swap_file::SwapFile;
use crate::store::{Compressed, FileStorage, Storage, Swap};
use crate::sys::PAGE;
use std::sync::Arc;

pub(super) fn make_swap(config: &PoolConfig, counts: &Counts) -> Result<Option<Swap>> {
    let s = &config.swap;
    let slots = (s.capacity() / PAGE as u64) as u32;
    if slots == 0 {
        return Ok(None);
    }
    let io = Error::io("making the swap");
    let memory = if s.compressed > 0 {
        let limit = compressed_limit(config, config.budget / PAGE as u64);
        let made = Compressed::new(slots, limit, s.codec).map_err(&io)?;
        Some(match s.file {
            Some(_) => made.before_file(s.compressed / PAGE as u64).map_err(&io)?,
            None => made,
        })
    } else {
        None
    };
    let bytes = u64::from(slots) * PAGE as u64;
    let patient = |f: Arc<dyn Storage>| counts.retrying(f);
    let file: Option<Arc<dyn Storage>> = match &s.file {
        None => None,
        Some(ConfiguredFile::Storage(f)) => Some(f.clone()),
        Some(ConfiguredFile::Temporary) => Some(patient(Arc::new(
            FileStorage::temporary(bytes).map_err(Error::io("creating a temporary swap file"))?,
        ))),
        Some(ConfiguredFile::Path(p)) => Some(patient(Arc::new(
            SwapFile::create(p, bytes).map_err(Error::at("creating the swap file"))?,
        ))),
    };
    let name = match &s.file {
        Some(ConfiguredFile::Path(p)) => format!("the swap file {}", p.display()),
        Some(ConfiguredFile::Temporary) => "the temporary swap file".into(),
        _ => "swap".into(),
    };
    let room = Room::new(name, config.full_wait);
    let made = Swap::new(slots, memory, file, s.encrypt, room);
    Ok(Some(made.map_err(&io)?))
}
