"""What tests share: brokers as processes, raw frames, other people's clients behind one face."""
