//! What USearch writes, checked before it is walked: it follows the numbers of a file without a look, and a pool may come
//! from anywhere. Everything is little-endian and packed:
//!
//! ```text
//! rows:u32 columns:u32 vectors:[i8; rows × columns]
//! "usearch" version:[u16; 3] metric:u8 scalar:u8 key:u8 slot:u8 present:u64 deleted:u64 dimension:u64 …   64 bytes
//! rows:u64 connectivity:u64 connectivity_base:u64 top_level:u64 entry:u64 levels:[i16; rows]
//! rows × { key:u64 level:i16 count:u32 [u32; connectivity_base], level × { count:u32 [u32; connectivity] } }
//! ```

/// Bytes of the head, and where in it are the kinds of metric and number, and the dimension.
const HEAD: usize = 64;
const KINDS: usize = 13;
const DIMENSION: usize = 33;
/// The inner product of numbers of one byte.
const OURS: [u8; 2] = [b'i', 23];

/// Whether a graph has so many rows of this dimension, each once, and leads nowhere else.
pub(super) fn is_sound(graph: &[u8], rows: usize, dimension: usize) -> bool {
    walk(graph, rows, dimension).is_some()
}

fn walk(graph: &[u8], rows: usize, dimension: usize) -> Option<()> {
    let mut bytes = Bytes(graph);
    require([bytes.u32()?, bytes.u32()?] == [rows, dimension])?;
    bytes.take(rows.checked_mul(dimension)?)?;
    let head = bytes.take(HEAD)?;
    require(head[KINDS..].starts_with(&OURS) && Bytes(&head[DIMENSION..]).u64()? == dimension)?;

    let (counted, connectivity, base) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let (top, entry) = (bytes.u64()?, bytes.u64()?);
    // USearch has its own idea of what fewer than two mean.
    require(counted == rows && connectivity >= 2 && base >= connectivity)?;
    let levels: Vec<usize> = (0..rows).map(|_| bytes.level()).collect::<Option<_>>()?;
    require(rows == 0 || *levels.get(entry)? >= top)?;

    let mut seen = vec![false; rows];
    for &level in &levels {
        let is_known = seen.get_mut(bytes.u64()?)?;
        require(!std::mem::replace(is_known, true) && bytes.level()? == level)?;
        for layer in 0..=level {
            let count = bytes.u32()?;
            let slots = bytes.take((if layer == 0 { base } else { connectivity }).checked_mul(4)?)?;
            let used = slots.as_chunks().0.get(..count)?;
            // Who is found in a layer is looked up in it.
            let has_layer = |slot: &[u8; 4]| {
                levels.get(u32::from_le_bytes(*slot) as usize).is_some_and(|level| *level >= layer)
            };
            require(used.iter().all(has_layer))?;
        }
    }
    require(bytes.0.is_empty())
}

fn require(condition: bool) -> Option<()> {
    condition.then_some(())
}

/// What is left of a graph.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn u64(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.array()?)).ok()
    }

    /// How many layers a row has above the lowest.
    fn level(&mut self) -> Option<usize> {
        usize::try_from(i16::from_le_bytes(self.array()?)).ok()
    }
}
