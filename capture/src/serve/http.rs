//! HTTP/1.1 answers as their bytes arrive, in bounded memory.

use super::record::RequestError;

/// Most bytes of the head of an answer.
const MOST_HEAD: usize = 64 << 10;

/// An answer that is being read.
#[derive(Debug)]
pub(super) struct Response {
    state: State,
    /// A line of the head or between chunks, as far as it is there.
    line: Vec<u8>,
    head_bytes: usize,
    /// 0 before its line is there.
    pub(super) status: u16,
    is_chunked: bool,
    length: Option<u64>,
    keeps_alive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Status,
    Fields,
    /// So many bytes are left.
    Sized(u64),
    /// The body ends with the connection.
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    Done,
}

impl Response {
    pub(super) fn new() -> Self {
        Self {
            state: State::Status,
            line: Vec::new(),
            head_bytes: 0,
            status: 0,
            is_chunked: false,
            length: None,
            keeps_alive: true,
        }
    }

    /// Whether nothing of it has arrived.
    pub(super) fn is_untouched(&self) -> bool {
        self.head_bytes == 0
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether another request may follow on the same connection.
    pub(super) fn keeps_alive(&self) -> bool {
        self.is_done() && self.keeps_alive
    }

    /// The connection has ended: whether that is an end of the answer, too.
    pub(super) fn close(&mut self) -> bool {
        self.keeps_alive = false;
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
        self.is_done()
    }

    /// Takes bytes as they came; pieces of the body go on, with the status.
    pub(super) fn feed(
        &mut self,
        mut input: &[u8],
        mut body: impl FnMut(u16, &[u8]) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        while !input.is_empty() {
            let piece = match self.state {
                State::Sized(left) | State::Chunk(left) => {
                    usize::try_from(left).unwrap_or(usize::MAX).min(input.len())
                }
                State::UntilClose => input.len(),
                // More than was asked for: nothing after it can be trusted.
                State::Done => {
                    self.keeps_alive = false;
                    return Ok(());
                }
                _ => {
                    if let Some(line) = self.whole_line(&mut input)? {
                        self.after_line(&line)?;
                    }
                    continue;
                }
            };
            body(self.status, &input[..piece])?;
            input = &input[piece..];
            self.state = match self.state {
                State::Sized(left) => sized(left - piece as u64),
                State::Chunk(left) if left == piece as u64 => State::ChunkEnd,
                State::Chunk(left) => State::Chunk(left - piece as u64),
                state => state,
            };
        }
        Ok(())
    }

    /// The next line without its end, once all of it is there.
    fn whole_line(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, RequestError> {
        let end = memchr::memchr(b'\n', input);
        let (piece, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        *input = rest;
        self.line.extend_from_slice(piece);
        let is_head = matches!(self.state, State::Status | State::Fields | State::Trailer);
        self.head_bytes += if is_head { piece.len() } else { 0 };
        if self.line.len() > MOST_HEAD || self.head_bytes > MOST_HEAD {
            return Err(RequestError::Http("a head that is too long"));
        }
        if end.is_none() {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.line);
        line.truncate(line.trim_ascii_end().len());
        Ok(Some(line))
    }

    fn after_line(&mut self, line: &[u8]) -> Result<(), RequestError> {
        self.state = match self.state {
            State::Status => {
                self.status = status(line).ok_or(RequestError::Http("no status line"))?;
                self.keeps_alive = line.starts_with(b"HTTP/1.1");
                State::Fields
            }
            State::Fields if line.is_empty() => self.framing(),
            State::Fields => {
                self.field(line)?;
                State::Fields
            }
            State::ChunkSize => match chunk_size(line) {
                Some(0) => State::Trailer,
                Some(size) => State::Chunk(size),
                None => return Err(RequestError::Http("a chunk without a size")),
            },
            State::ChunkEnd if line.is_empty() => State::ChunkSize,
            State::ChunkEnd => return Err(RequestError::Http("a chunk longer than its size")),
            State::Trailer if line.is_empty() => State::Done,
            state => state,
        };
        Ok(())
    }

    fn field(&mut self, line: &[u8]) -> Result<(), RequestError> {
        let line = String::from_utf8_lossy(line).to_ascii_lowercase();
        let (name, value) = line
            .split_once(':')
            .ok_or(RequestError::Http("a header without a colon"))?;
        match (name, value.trim()) {
            ("transfer-encoding", value) => self.is_chunked = value.ends_with("chunked"),
            ("content-length", value) => {
                let length = value
                    .parse()
                    .map_err(|_| RequestError::Http("a length that is no number"))?;
                self.length = Some(length);
            }
            ("connection", "close") => self.keeps_alive = false,
            ("content-encoding", value) if value != "identity" => {
                return Err(RequestError::Http(
                    "a body that is packed, which was not asked for",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// What follows the head (RFC 9112, section 6.3).
    fn framing(&mut self) -> State {
        match (self.status, self.is_chunked, self.length) {
            // Another answer follows a provisional one.
            (100..200, ..) => State::Status,
            (204 | 304, ..) => State::Done,
            (_, true, _) => State::ChunkSize,
            (_, false, Some(length)) => sized(length),
            (_, false, None) => State::UntilClose,
        }
    }
}

fn sized(left: u64) -> State {
    if left == 0 {
        State::Done
    } else {
        State::Sized(left)
    }
}

fn status(line: &[u8]) -> Option<u16> {
    let rest = line
        .strip_prefix(b"HTTP/1.1 ")
        .or_else(|| line.strip_prefix(b"HTTP/1.0 "))?;
    let digits = std::str::from_utf8(rest.get(..3)?).ok()?;
    digits
        .parse()
        .ok()
        .filter(|status| (100..600).contains(status))
}

/// Hexadecimal, with an extension behind a semicolon that means nothing here.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let digits = line.split(';').next()?.trim_ascii();
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of an answer that arrives in pieces of this size, and whether it is whole.
    fn read(answer: &[u8], piece: usize) -> Result<(Vec<u8>, Response), RequestError> {
        let (mut response, mut body) = (Response::new(), Vec::new());
        for piece in answer.chunks(piece) {
            response.feed(piece, |_, bytes| {
                body.extend_from_slice(bytes);
                Ok(())
            })?;
        }
        Ok((body, response))
    }

    #[test]
    fn bodies_are_the_same_however_they_are_cut() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nA: b\r\n\r\n";
        let sized =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 12\n\nhello, world";
        for piece in 1..chunked.len() {
            for answer in [&chunked[..], &sized[..]] {
                let (body, response) = read(answer, piece).expect("valid");
                assert_eq!(
                    (body.as_slice(), response.status),
                    (&b"hello, world"[..], 200)
                );
                assert!(response.keeps_alive(), "{piece}");
            }
        }
    }

    #[test]
    fn connections_are_kept_only_where_the_end_is_sure() {
        for (answer, is_kept) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..], true),
            (b"HTTP/1.1 204 No Content\r\n\r\n", true),
            (
                b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n",
                false,
            ),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", false),
        ] {
            let (_, response) = read(answer, 1000).expect("valid");
            assert_eq!(
                (response.is_done(), response.keeps_alive()),
                (true, is_kept)
            );
        }
        let (body, mut response) = read(b"HTTP/1.1 200 OK\r\n\r\nabc", 1).expect("valid");
        assert!(!response.is_done() && response.close() && !response.keeps_alive());
        assert_eq!(body, b"abc");
        let (_, mut cut) = read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 1).expect("ok");
        assert!(!cut.close());
    }

    #[test]
    fn what_is_not_http_is_an_error_in_bounded_memory() {
        let long = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"A: b\r\n".repeat(20_000)].concat();
        for answer in [
            &b"SSH-2.0-x\r\n"[..],
            b"HTTP/1.1 999 x\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n",
            &long,
            &vec![b'x'; 100_000],
        ] {
            assert!(matches!(read(answer, 999), Err(RequestError::Http(_))));
        }
    }
}
