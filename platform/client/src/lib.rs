//! The native client of Quorate: sessions, redirects, deadlines, retries, pipelining
