//! The bytes of a trace: opened, unpacked while they are read, counted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::error::TraceError;

/// How far a reader has come, for a progress bar. Clones share the count.
#[derive(Debug, Clone)]
pub struct Progress {
    consumed: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    /// Bytes of the file (still packed) read so far.
    pub fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// Bytes of the file; `None` for a pipe.
    pub fn total(&self) -> Option<u64> {
        self.total
    }
}

/// How the bytes of a trace are packed; recognised by their first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Uncompressed.
    Plain,
    /// gzip, also of several members.
    Gzip,
    /// Zstandard, also of several frames.
    Zstd,
    /// xz, also of several streams.
    Xz,
}

impl Packing {
    /// Longest magic number, in bytes.
    const MAGIC: usize = 6;

    fn detect(head: &[u8]) -> Packing {
        // The third byte of gzip is its only compression method; asking for it keeps
        // binary traces that begin with 1f 8b apart.
        if head.starts_with(&[0x1f, 0x8b, 0x08]) {
            Packing::Gzip
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Packing::Zstd
        } else if head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
            Packing::Xz
        } else {
            Packing::Plain
        }
    }

    /// `plain`, `gzip`, `zstd` or `xz`.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Plain => "plain",
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
            Packing::Xz => "xz",
        }
    }
}

struct Counting<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Bytes looked at to recognise a format.
const HEAD: usize = 16 * 1024;
/// Buffer on either side of the unpacker.
const BUFFER: usize = 64 * 1024;
/// Memory that an xz file may ask for: the 64 MiB of `xz -9`, and a little for the decoder.
const XZ_MEMORY: u64 = 66 << 20;
/// Window that a zstd file may ask for, as a power of two: 64 MiB, that of `zstd --ultra -21`.
const ZSTD_WINDOW_LOG: u32 = 26;
/// Unpacked bytes that any packed file may have.
const UNPACKED: u64 = 16 << 20;
/// Unpacked bytes beyond those, for each packed byte. Text of single accesses has half of it; only
/// what repeats itself throughout has more.
const UNPACKED_PER_BYTE: u64 = 64;

/// An opened trace: a stream of unpacked bytes with a name.
pub struct Source {
    name: String,
    packing: Packing,
    head: Vec<u8>,
    reader: BufReader<Box<dyn Read + Send>>,
    offset: u64,
    progress: Progress,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// Missing or unreadable file, folder, packed data damaged at the very start.
    pub fn open(path: &Path) -> Result<Source, TraceError> {
        let name = path.display().to_string();
        let open_error = |source| TraceError::Open {
            name: name.clone(),
            source,
        };
        let file = File::open(path).map_err(open_error)?;
        let metadata = file.metadata().map_err(open_error)?;
        if metadata.is_dir() {
            return Err(TraceError::Folder { name });
        }
        let total = metadata.is_file().then_some(metadata.len());
        Source::from_reader(name, file, total)
    }

    /// Takes any byte stream, for instance standard input. `total` is its length if known.
    ///
    /// # Errors
    /// As [`Source::open`], without those of the file.
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
        total: Option<u64>,
    ) -> Result<Source, TraceError> {
        let name = name.into();
        let consumed = Arc::new(AtomicU64::new(0));
        let progress = Progress {
            consumed: Arc::clone(&consumed),
            total,
        };
        let mut raw = BufReader::with_capacity(
            BUFFER,
            Counting {
                inner: reader,
                consumed,
            },
        );

        let mut packing = Packing::Plain;
        let read_error = |packing: Packing| {
            let name = name.clone();
            move |source| unreadable(name, packing, 0, source)
        };
        let magic = read_up_to(&mut raw, Packing::MAGIC).map_err(read_error(packing))?;
        packing = Packing::detect(&magic);
        let raw = Cursor::new(magic).chain(raw);

        let mut unpacked: Box<dyn Read + Send> = match packing {
            Packing::Plain => Box::new(raw),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
            Packing::Zstd => Box::new(zstd_decoder(raw).map_err(read_error(packing))?),
            Packing::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(
                    XZ_MEMORY,
                    liblzma::stream::CONCATENATED,
                )
                .map_err(|error| read_error(packing)(io::Error::other(error)))?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(raw, stream))
            }
        };
        let head = read_up_to(&mut unpacked, HEAD).map_err(read_error(packing))?;
        let whole = Box::new(Cursor::new(head.clone()).chain(unpacked));
        Ok(Source {
            name,
            packing,
            reader: BufReader::with_capacity(BUFFER, whole),
            head,
            offset: 0,
            progress,
        })
    }

    /// The first unpacked bytes (16 KiB, or all if fewer).
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// File as given by the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the file is packed.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// A view of the bytes read so far.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Unpacked bytes handed out so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends one line with its end of line to `line`, but at most `limit` bytes of it;
    /// returns the bytes appended, 0 at the end.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>, limit: u64) -> Result<u64, TraceError> {
        let read = (&mut self.reader).take(limit).read_until(b'\n', line);
        let read = read.map_err(|source| self.read_error(source))? as u64;
        self.offset += read;
        self.check_size()?;
        Ok(read)
    }

    /// Fills `record` as far as the stream goes; returns the bytes read.
    pub(super) fn read_record(&mut self, record: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < record.len() {
            match self.reader.read(&mut record[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    self.offset += filled as u64;
                    return Err(self.read_error(source));
                }
            }
        }
        self.offset += filled as u64;
        self.check_size()?;
        Ok(filled)
    }

    /// The bytes that can be had without reading on and without an error; perhaps none.
    pub(super) fn ready(&self) -> &[u8] {
        let bytes = self.reader.buffer();
        let most = self.allowed().saturating_sub(self.offset);
        &bytes[..bytes.len().min(usize::try_from(most).unwrap_or(usize::MAX))]
    }

    /// Takes so many of the bytes that are [`Source::ready`].
    pub(super) fn take_ready(&mut self, bytes: usize) {
        self.reader.consume(bytes);
        self.offset += bytes as u64;
    }

    /// Unpacked bytes that the packed ones read so far may have.
    fn allowed(&self) -> u64 {
        if self.packing == Packing::Plain {
            return u64::MAX;
        }
        let packed = self.progress.consumed();
        packed
            .saturating_mul(UNPACKED_PER_BYTE)
            .saturating_add(UNPACKED)
    }

    /// A packed file is no reason to take memory without end.
    fn check_size(&self) -> Result<(), TraceError> {
        if self.offset <= self.allowed() {
            return Ok(());
        }
        Err(TraceError::Unpacks {
            name: self.name.clone(),
            packing: self.packing.name(),
            packed: self.progress.consumed(),
            unpacked: self.offset,
        })
    }

    fn read_error(&self, source: io::Error) -> TraceError {
        unreadable(self.name.clone(), self.packing, self.offset, source)
    }
}

fn unreadable(name: String, packing: Packing, offset: u64, source: io::Error) -> TraceError {
    let packing = packing.name();
    let inner = source.get_ref();
    let xz = inner.and_then(|e| e.downcast_ref::<liblzma::stream::Error>());
    // Of zstd there is only the text.
    let zstd = || packing == "zstd" && source.to_string().contains("too much memory");
    if xz == Some(&liblzma::stream::Error::MemLimit) || zstd() {
        return TraceError::Window { name, packing };
    }
    TraceError::Read {
        name,
        packing,
        offset,
        source,
    }
}

fn zstd_decoder<R: BufRead>(raw: R) -> io::Result<zstd::stream::read::Decoder<'static, R>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(raw)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    Ok(decoder)
}

fn read_up_to(reader: &mut impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TEXT: &[u8] = b"one\ntwo\nthree";

    fn all(bytes: Vec<u8>) -> Result<(Packing, Vec<u8>), TraceError> {
        let total = Some(bytes.len() as u64);
        let mut source = Source::from_reader("test", Cursor::new(bytes), total)?;
        let mut text = Vec::new();
        while source.read_line(&mut text, 1000)? > 0 {}
        assert_eq!(
            Some(source.progress().consumed()),
            source.progress().total()
        );
        Ok((source.packing(), text))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn packed() -> [(Packing, Vec<u8>); 4] {
        [
            (Packing::Plain, TEXT.to_vec()),
            (Packing::Gzip, gzip(TEXT)),
            (Packing::Zstd, zstd::encode_all(TEXT, 1).expect("memory")),
            (Packing::Xz, xz(TEXT)),
        ]
    }

    #[test]
    fn packing_is_recognised_by_content() {
        for (packing, bytes) in packed() {
            assert_eq!(all(bytes).expect("sound"), (packing, TEXT.to_vec()));
        }
    }

    #[test]
    fn concatenated_packed_files_are_read_to_the_end() {
        for (packing, bytes) in packed() {
            let twice = [bytes.clone(), bytes].concat();
            assert_eq!(all(twice).expect("sound"), (packing, [TEXT, TEXT].concat()));
        }
    }

    #[test]
    fn packed_data_cut_short_is_an_error() {
        for (packing, bytes) in packed().into_iter().skip(1) {
            let cut = bytes[..bytes.len() - 3].to_vec();
            let message = all(cut).expect_err("cut").to_string();
            let start = format!(
                "test: cannot read {} data beyond unpacked byte 0: ",
                packing.name()
            );
            assert!(message.starts_with(&start), "{message}");
            assert!(
                message.ends_with("copy it again") && !message.contains('\n'),
                "{message}"
            );
        }
    }

    #[test]
    fn a_file_that_unpacks_without_end_is_refused() {
        let zeroes = vec![0; 24 << 20];
        let packed = [
            gzip(&zeroes),
            zstd::encode_all(&zeroes[..], 1).expect("memory"),
            xz(&zeroes),
        ];
        for bytes in packed {
            let size = bytes.len() as u64;
            let error = all(bytes).expect_err("too much");
            let TraceError::Unpacks { unpacked, .. } = error else {
                panic!("{error}");
            };
            let limit = UNPACKED + UNPACKED_PER_BYTE * size;
            assert!((UNPACKED..limit + 1001).contains(&unpacked), "{unpacked}");
            assert!(error.to_string().contains("unpack it first"), "{error}");
        }
    }

    /// A window is allocated before anything is known of what it is for.
    #[test]
    fn windows_are_limited() {
        let packed = |log| {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("memory");
            encoder.window_log(log).expect("a window");
            encoder.write_all(TEXT).expect("memory");
            encoder.finish().expect("memory")
        };
        assert_eq!(all(packed(ZSTD_WINDOW_LOG)).expect("sound").1, TEXT);
        let large = all(packed(ZSTD_WINDOW_LOG + 1)).expect_err("large");
        assert!(matches!(large, TraceError::Window { .. }), "{large}");
        for (size, good) in [(64 << 20, true), (128 << 20, false)] {
            let mut options = liblzma::stream::LzmaOptions::new_preset(1).expect("a preset");
            options.dict_size(size);
            let mut filters = liblzma::stream::Filters::new();
            filters.lzma2(&options);
            let check = liblzma::stream::Check::Crc32;
            let stream = liblzma::stream::Stream::new_stream_encoder(&filters, check);
            let out = Vec::new();
            let mut encoder = liblzma::write::XzEncoder::new_stream(out, stream.expect("memory"));
            encoder.write_all(TEXT).expect("memory");
            let read = all(encoder.finish().expect("memory"));
            match read {
                Ok(_) => assert!(good, "{size}"),
                Err(large) => {
                    assert!(
                        !good && matches!(large, TraceError::Window { .. }),
                        "{large}"
                    );
                }
            }
        }
    }

    #[test]
    fn plain_bytes_that_resemble_gzip_stay_plain() {
        let bytes = vec![0x1f, 0x8b, 0, 0, 1, 0, 0, 0];
        assert_eq!(all(bytes.clone()).expect("sound"), (Packing::Plain, bytes));
    }

    #[test]
    fn lines_beyond_the_limit_come_in_pieces() {
        let mut source = Source::from_reader("test", TEXT, None).expect("sound");
        let mut line = Vec::new();
        assert_eq!(source.read_line(&mut line, 2).expect("sound"), 2);
        assert_eq!(line, b"on");
        assert_eq!(source.progress().total(), None);
    }
}
