import { describe, expect, test } from 'bun:test'
import { demoAudio } from '../../../../server/devnet/demo/audio.ts'
import { noteOf, soundOf } from '../../../../server/devnet/demo/sounds.ts'
import { readWav, type Samples, secondsOf } from '../../../../adapters/providers/lib/wav.ts'
import type { MadeAudio } from '../../../../core/mod.ts'
import { audioVendorLaws } from '../../../conformance/audio.ts'
import { runLaws } from '../../../conformance/law.ts'
import { calm } from '../../../adapters/providers/lib/provider_kit.ts'

const vendor = demoAudio()
runLaws('demoAudio()', audioVendorLaws, async () => ({ open: async () => vendor, close: async () => {} }))

const bytesOf = (made: MadeAudio | undefined) =>
  Buffer.from((made?.url ?? '').slice((made?.url ?? '').indexOf(',') + 1), 'base64')
const samplesOf = (made: MadeAudio | undefined) => readWav(bytesOf(made)) as Samples
const loudest = ({ samples }: Samples) =>
  new Int16Array(Uint8Array.from(samples).buffer).reduce((most, value) => Math.max(most, Math.abs(value)), 0)
const speech = { model: 'm', text: 'Hello, 狐.', voice: 'sarah', format: 'wav', speed: 1 } as const

describe('demo speech', () => {
  test('is a WAV that says that no model made it; PCM has the same samples, with their rate', async () => {
    const made = await vendor.speak?.(speech, calm())
    const read = samplesOf(made)
    expect([read.rate, read.channels, loudest(read) > 8_000, made?.seconds]).toEqual([16_000, 1, true, secondsOf(read)])
    expect([made?.note, bytesOf(made).includes(noteOf('speech'))]).toEqual([noteOf('speech'), true])
    const pcm = await vendor.speak?.({ ...speech, format: 'pcm' }, calm())
    expect([bytesOf(pcm).equals(Buffer.from(read.samples)), pcm?.sampleRate]).toEqual([true, 16_000])
  })

  test('is as long as 15 characters a second make it, by the speed', async () => {
    const secondsAt = async (speed: number) =>
      (await vendor.speak?.({ ...speech, text: 'x'.repeat(60), speed }, calm()))?.seconds
    expect([await secondsAt(1), await secondsAt(0.5)]).toEqual([4, 8])
  })

  test('takes the voice names of the contract and ids of another vendor', () => {
    expect(vendor.voiceNames.aliases.george).toBe('tones')
    expect(vendor.voiceNames.ids.test('EXAVITQu4vr4xnSDxMaL')).toBe(true)
  })
})

test.each(['sound', 'music'] as const)('demo %s is exactly as long as ordered, audible, and labelled', async (kind) => {
  const order = { kind, text: 'church bell', seconds: 1.5, tonesPerSecond: 2 }
  const [first, again, other] = [
    await soundOf(order),
    await soundOf(order),
    await soundOf({ ...order, text: 'old bell' }),
  ]
  expect([secondsOf(first), loudest(first) > 8_000, loudest(first) < 32_767]).toEqual([1.5, true, true])
  expect(again).toEqual(first)
  expect(Buffer.from(first.samples).equals(other.samples)).toBe(false)
  const made =
    kind === 'sound'
      ? await vendor.sound?.({ model: 'm', text: 'bell', format: 'wav' }, calm())
      : await vendor.compose?.({ model: 'm', prompt: 'calm', instrumental: true, seconds: 240 }, calm())
  expect([made?.note, bytesOf(made).includes(noteOf(kind))]).toEqual([noteOf(kind), true])
  expect(secondsOf(samplesOf(made))).toBe(kind === 'sound' ? 4 : 60)
  expect(noteOf(kind)).toStartWith(`Demo ${kind} by Farebox - not a model.`)
})
