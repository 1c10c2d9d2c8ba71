/**
 * For tests of audio vendors: sounds of each format, the laws over a stand-in, and tables of what recorded refusals
 * read as.
 */
import { describe, expect, test } from 'bun:test'
import type { AudioVendorConfig } from '../../../../adapters/providers/lib/audio_provider.ts'
import { TONE_BYTES } from '../../../fakes/audio.ts'
import type { AudioFormat, AudioVendor } from '../../../../core/mod.ts'
import {
  type Answer,
  outcome,
  quoted,
  recorded,
  replay,
  errorText,
  setup,
  standIn,
  testRecordings,
} from './provider_kit.ts'

type Make = (config: AudioVendorConfig) => AudioVendor

/** Enough of each to be recognised, and no more. */
export const SOUNDS: Readonly<Record<AudioFormat, Uint8Array>> = {
  mp3: Uint8Array.from(Buffer.from('ID3\x04\0\0\0\0\0\0\xff\xfb\x90\x64', 'latin1')),
  opus: Uint8Array.from(Buffer.from('OggS\0\x02\0\0\0\0\0\0\0\0OpusHead', 'latin1')),
  pcm: Uint8Array.from({ length: 4_800 }, (_, index) => index % 251),
  wav: TONE_BYTES,
}
export const soundReply = (format: AudioFormat, headers: Record<string, string> = {}): Response =>
  new Response(SOUNDS[format] as BodyInit, {
    headers: { 'content-type': format === 'mp3' ? 'audio/mpeg' : 'application/octet-stream', ...headers },
  })
export const uri = (type: string, bytes: Uint8Array): string =>
  `data:${type};base64,${Buffer.from(bytes).toString('base64')}`

/** A stand-in, and a vendor that calls it. */
export function vendorOn(make: Make, answer: Answer, more: Partial<AudioVendorConfig> = {}) {
  const server = standIn(answer)
  const { config, log, clock } = setup(server.url)
  return { server, log, clock, vendor: make({ ...config, ...more }) }
}

/**
 * One test for each recorded refusal: what it reads as, that it quotes nothing, and that no recording is left out or
 * without a source.
 */
export function refusals(
  protocol: string,
  make: Make,
  ask: (vendor: AudioVendor) => Promise<unknown>,
  { read, refused }: { read: readonly string[]; refused: Readonly<Record<string, string>> },
): void {
  describe(`a refusal of ${protocol}`, () => {
    test.each(Object.entries(refused))('%s reads as %s, and quotes nothing', async (name, expected) => {
      const reply = recorded(protocol, name)
      const { vendor, log } = vendorOn(make, () => replay(reply))
      const work = ask(vendor)
      expect(await outcome(work, log)).toBe(expected)
      const words = await errorText(work, log)
      expect(quoted(words, reply)).toEqual([])
    })

    testRecordings(protocol, [...read, ...Object.keys(refused)])
  })
}
