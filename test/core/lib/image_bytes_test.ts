import { describe, expect, test } from 'bun:test'
import { pictureOf, recognize, typeByMagic } from '../../../core/lib/image_bytes.ts'
import { bmp, box, dataUri, gif, isobmff, ispe, jpeg, pictures, png } from '../../samples.ts'

const text = (words: string) => new TextEncoder().encode(words)

describe('recognize()', () => {
  for (const [type, bytes] of Object.entries(pictures)) {
    test(`knows ${type} and its size by its bytes`, () => {
      expect(recognize(bytes)).toEqual({ type, width: 40, height: 30 })
    })
  }

  test('knows nothing else, whatever the library could read', () => {
    const svg = text('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"></svg>')
    const tiff = new Uint8Array([0x49, 0x49, 0x2a, 0, 8, 0, 0, 0, 0, 0])
    const psd = text('8BPS\0\x01\0\0\0\0\0\0\0\x03\0\0\0\x1e\0\0\0\x28')
    for (const bytes of [svg, tiff, psd, text('P6 40 30 255'), text('garbage'), new Uint8Array(), new Uint8Array(1000)])
      expect(recognize(bytes)).toBeUndefined()
  })

  test('knows no picture without pixels, and none that breaks off before its size', () => {
    for (const bytes of [png({ width: 0, height: 1 }), gif({ width: 1, height: 0 }), bmp({ width: 0, height: 0 })])
      expect(recognize(bytes)).toBeUndefined()
    for (const [type, bytes] of Object.entries(pictures))
      expect([type, recognize(bytes.slice(0, 9))]).toEqual([type, undefined])
  })

  test('knows every brand of the HEIC and HEIF families', () => {
    const typeOf = (brand: string) => recognize(isobmff(brand, ispe({ width: 4, height: 4 })))?.type
    for (const brand of ['heic', 'heix', 'hevc', 'hevx']) expect([brand, typeOf(brand)]).toEqual([brand, 'image/heic'])
    for (const brand of ['mif1', 'msf1']) expect([brand, typeOf(brand)]).toEqual([brand, 'image/heif'])
  })

  test('HEIC, HEIF and AVIF are known by their major or a compatible brand (contract 5.50)', () => {
    const one = ispe({ width: 4, height: 4 })
    const typeOf = (brand: string) => recognize(isobmff(brand, one))?.type
    const branded = (major: string, ...compatible: readonly string[]) => {
      const [plain, words] = [isobmff('mif1', one), [major, '\0\0\0\0', ...compatible].map(text)]
      return new Uint8Array(Buffer.concat([box('ftyp', ...words), plain.slice(20)]))
    }
    for (const brand of ['heim', 'heis', 'hevm', 'hevs']) expect([brand, typeOf(brand)]).toEqual([brand, 'image/heic'])
    expect([typeOf('mif2'), typeOf('avis')]).toEqual(['image/heif', 'image/avif'])
    for (const [major, compatible, type] of [
      ['mif1', 'heic', 'image/heic'],
      ['mif1', 'heis', 'image/heic'],
      ['mif2', 'hevm', 'image/heic'],
      ['msf1', 'avis', 'image/avif'],
      ['miaf', 'mif2', 'image/heif'],
      ['isom', 'avif', 'image/avif'],
      ['heix', 'avif', 'image/heic'],
    ] as const) {
      const bytes = branded(major, 'miaf', compatible)
      expect([major, compatible, recognize(bytes)?.type, typeByMagic(bytes)]).toEqual([major, compatible, type, type])
    }
    expect([recognize(branded('isom', 'mp42', 'avc1')), typeByMagic(branded('isom', 'mp42'))]).toEqual([
      undefined,
      undefined,
    ])
  })

  test('refuses a brand that is not a still picture', () => {
    for (const brand of ['mp42', 'isom', 'qt  ', 'heic'.toUpperCase()])
      expect(recognize(isobmff(brand, ispe({ width: 4, height: 4 })))).toBeUndefined()
  })

  test('a JPEG with 900 KB before its frame is one, and its head is as far as anybody looks', () => {
    const plain = jpeg({ width: 40, height: 30 })
    const segment = new Uint8Array(60_000)
    segment.set([0xff, 0xe2, 0xea, 0x5e])
    const withSegments = (count: number) =>
      new Uint8Array(
        Buffer.concat([plain.slice(0, 20), ...Array.from({ length: count }, () => segment), plain.slice(20)]),
      )
    expect(recognize(withSegments(15))).toEqual({ type: 'image/jpeg', width: 40, height: 30 })
    expect(recognize(withSegments(18))).toBeUndefined()
  })

  test('a JPEG in more than a thousand splinters is none, however small they are', () => {
    const plain = jpeg({ width: 40, height: 30 })
    const splinters = (count: number) =>
      new Uint8Array(
        Buffer.concat([
          plain.slice(0, 2),
          ...Array.from({ length: count }, () => new Uint8Array([0xff, 0xe1, 0, 4, 0, 0])),
          plain.slice(2),
        ]),
      )
    expect(recognize(splinters(100))).toEqual({ type: 'image/jpeg', width: 40, height: 30 })
    expect(recognize(splinters(2_000))).toBeUndefined()
  })

  test('a HEIC that tells more sizes than any picture has is none', () => {
    const load = (count: number) =>
      isobmff('heic', new Uint8Array(Buffer.concat(Array<Uint8Array>(count).fill(ispe({ width: 5, height: 5 })))))
    expect([recognize(load(64)), recognize(load(65))]).toEqual([{ type: 'image/heic', width: 5, height: 5 }, undefined])
  })

  test('recognizes a file by its first bytes without reading on', () => {
    for (const [type, bytes] of Object.entries({
      'image/jpeg': jpeg({ width: 1, height: 1 }),
      'image/heic': isobmff('heic', ispe({ width: 1, height: 1 })),
    }))
      expect(typeByMagic(bytes)).toBe(type)
    expect(typeByMagic(new TextEncoder().encode('GIF89a'))).toBe('image/gif')
    expect(typeByMagic(new TextEncoder().encode('BM1234'))).toBe('image/bmp')
    expect(typeByMagic(new TextEncoder().encode('RIFF1234WEBPVP8 '))).toBe('image/webp')
    expect(typeByMagic(new TextEncoder().encode('hello'))).toBeUndefined()
  })

  test('crafted pictures of 8 MB are judged by their head: what is super-linear would never end', () => {
    const property = ispe({ width: 5, height: 5 })
    const heic = isobmff('heic', new Uint8Array(Buffer.concat(Array<Uint8Array>(400_000).fill(property))))
    const zeros = new Uint8Array(8 << 20)
    zeros.set([0xff, 0xd8, 0xff, 0xe0])
    const svg = text('<svg '.repeat(1_600_000))
    for (const bytes of [heic, zeros, svg, new Uint8Array(Buffer.concat([box('ftyp', text('none')), zeros]))])
      expect(recognize(bytes)).toBeUndefined()
  })
})

describe('pictureOf()', () => {
  test('reads the picture in a data URI, by its bytes and not by its declared type', () => {
    for (const [type, bytes] of Object.entries(pictures))
      expect(pictureOf(dataUri(bytes, 'image/jpeg'))).toEqual({ type, width: 40, height: 30 })
    expect(pictureOf(dataUri(png(), 'IMAGE/x-whatever'))).toEqual({ type: 'image/png', width: 1, height: 1 })
  })

  test('says why there is none', () => {
    const why = {
      prefix: 'must be a data URI that starts with data:image/',
      form: 'is not a well-formed base64 data URI',
      bytes: expect.stringContaining('does not decode to a recognizable image'),
    }
    for (const uri of [
      '',
      'https://example.com/a.png',
      'data:text/plain;base64,AAAA',
      'image/png;base64,AAAA',
      ` ${dataUri(png())}`,
    ])
      expect(pictureOf(uri)).toBe(why.prefix)
    for (const uri of [
      'data:image/png;base64,***',
      'data:image/png',
      'data:image/;base64,AAAA',
      'data:image/png;base64,AAAAA',
    ])
      expect(pictureOf(uri)).toBe(why.form)
    for (const uri of [
      dataUri(text('hello')),
      'data:image/png;base64,',
      'data:image/svg+xml,%3Csvg%20width%3D%221%22%3E',
    ])
      expect(pictureOf(uri)).toEqual(why.bytes)
  })
})
