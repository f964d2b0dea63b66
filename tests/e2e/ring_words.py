"""A rank's ring in shared memory (schemas/live/ring_layout.h), read by other code than piper's own."""
import struct

PROCESS, RANK, TRACKS, CAPACITY, SEEN, SECTIONS = 5, 3, 8, 9, 15, 16
HEADER, TRACK, EVENT, FIRST_STEP, STEP = 64, 8, 3, 1, 2


class RingWords:
    """`data`: the ring's bytes, of one moment or as they change."""

    def __init__(self, data):
        if data[:8] != b"piprring":
            raise OSError("this is no ring")
        self.data = data
        self.process, self.rank, self.tracks, self.capacity = map(self.word, (PROCESS, RANK, TRACKS, CAPACITY))

    def word(self, place):
        return struct.unpack_from("<Q", self.data, 8 * place)[0]

    def section(self, number):
        """How often a section of the run was finished, and the seconds that its longest took."""
        return self.word(SECTIONS + 2 * number), self.word(SECTIONS + 2 * number + 1) / 1e9

    def event(self, track, back=0):
        """The three words of a track's newest event, or one further back; None where it has none."""
        written = self.word(HEADER + track * TRACK)
        if written <= back:
            return None
        at = HEADER + self.tracks * TRACK + (track * self.capacity + (written - 1 - back) % self.capacity) * EVENT
        return tuple(self.word(at + i) for i in range(EVENT))
