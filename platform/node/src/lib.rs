//! A Quorate replica put together: the driver's turn, its async shell, threads, status
